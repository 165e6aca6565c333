"""The server that gets the mutated requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Server


@pytest.fixture(scope="session")
def server(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which nothing can be installed: an index must not get names that nobody means."""
    running = Server(tmp_path_factory.mktemp("fuzz"), env={"CLOCHE_PACKAGES": "none"})
    yield running
    running.stop()
