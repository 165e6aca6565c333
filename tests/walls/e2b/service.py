"""A second Cloche as the service behind `isolation="e2b"`, and E2B's own client to reach it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import Server
from tests.e2b.clients import install
from tests.waiting import eventually

from cloche.walls.e2b import carrier

_folders: list[Path] = []


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those packages of E2B's client that we do not have: ours stay as they are.

    There is one for all modules: when a test has imported the client, it no longer looks missing.
    """
    if _folders:
        return _folders[0]
    folder = tmp_path_factory.mktemp("client")
    [packages] = install.python().parent.parent.glob("lib/python*/site-packages")
    ours = {each.name.lower().replace("-", "_") for each in distributions()}
    for path in packages.iterdir():
        name = path.name.removesuffix(".py")
        is_missing = name.isidentifier() and not name.startswith("_") and find_spec(name) is None
        if is_missing or (path.suffix == ".dist-info" and path.name.partition("-")[0].lower() not in ours):
            (folder / path.name).symlink_to(path)
    _folders.append(folder)
    return folder


@pytest.fixture(scope="module")
def elsewhere(server: Server, client: Path) -> Iterator[Server]:
    """The server that has the sandboxes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(client)])
        patch.setenv("CLOCHE_E2B_API_URL", server.url)
        patch.setenv("CLOCHE_E2B_API_KEY", server.key)
        yield server
        carrier.close()


def alive(server: Server) -> set[str]:
    """The sandboxes that the service has."""
    with server.client() as http:
        return {each["id"] for each in http.get("/v1/sandboxes?state=alive").json()["items"]}


def await_gone(server: Server, before: set[str]) -> None:
    """Poll, because no event says that the service has ended a sandbox."""
    eventually(lambda: not alive(server) - before, 20, "a service without our sandboxes")
