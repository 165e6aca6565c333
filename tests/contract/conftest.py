"""Runs every test of this folder behind every wall of the table (`cloche.walls.registry.WALLS`).

A wall that needs something set up first has a fixture `NAME_wall` here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from tests.conftest import Server
from tests.walls.e2b import service

import cloche
from cloche.blocking.walls import registry
from cloche.blocking.walls.registry import WALLS, WallEntry


@pytest.fixture(scope="module")
def jail_wall(jail: None) -> None:
    """The jail needs nothing but a host that allows it."""


client, elsewhere = service.client, service.elsewhere


@pytest.fixture(scope="module")
def e2b_wall(elsewhere: Server) -> None:
    """A second Cloche, which speaks E2B's protocol."""


@pytest.fixture(scope="module", params=WALLS, ids=lambda entry: str(entry.name))
def entry(request: pytest.FixtureRequest) -> WallEntry:
    """The wall's row of the table; the wall can be used."""
    setup = f"{request.param.name}_wall"
    if setup in globals():
        request.getfixturevalue(setup)
    found: WallEntry = request.param
    return found


@pytest.fixture(scope="module")
def isolation(entry: WallEntry) -> str:
    """The wall's name, as a caller gives it."""
    return entry.name


@pytest.fixture(scope="module")
def box(isolation: str) -> Iterator[cloche.Sandbox]:
    """One sandbox behind the wall, which the tests of a file share."""
    with cloche.Sandbox(isolation=isolation) as sandbox:
        yield sandbox


class Contract:
    """What a wall can do, by its own account."""

    def __init__(self, entry: WallEntry) -> None:
        self._entry = entry

    def can(self, feature: str) -> bool:
        assert feature in registry.FEATURES
        return feature not in self._entry.cannot

    def refuses(self, feature: str) -> AbstractContextManager[pytest.ExceptionInfo[cloche.Refused]]:
        """Expect a refusal that names the feature and says what to do instead."""
        return pytest.raises(cloche.Refused, match=_WORDS.get(feature, feature))


_WORDS = {"mounts": "cannot be mounted", "pause": "cannot be paused"}


@pytest.fixture(scope="module")
def contract(entry: WallEntry) -> Contract:
    return Contract(entry)
