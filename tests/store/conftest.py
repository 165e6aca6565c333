"""Fixtures for tests of the store: one database of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.store import postgresql as servers

from cloche.store.store import Store


@pytest.fixture(scope="session")
def postgresql() -> Iterator[servers.PostgreSQL]:
    yield from servers.running()


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/cloche.db"
        return
    server: servers.PostgreSQL = request.getfixturevalue("postgresql")
    name = await server.create()
    yield server.url(name)
    await server.drop(name)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = await Store.open(url)
    yield opened
    await opened.close()
