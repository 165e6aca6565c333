"""What tests of the client share: a real server, and a way to it that can be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.wires import Wire
from tests.conftest import Server

import cloche


@pytest.fixture
def server(served: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server, which nobody finds by the environment."""
    monkeypatch.delenv("CLOCHE_URL", raising=False)
    monkeypatch.delenv("CLOCHE_API_KEY", raising=False)
    return served


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A way to the server that can be cut."""
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def there(server: Server) -> Iterator[cloche.Sandbox]:
    """A fresh sandbox on the server."""
    with cloche.Sandbox(url=server.url, api_key=server.key) as box:
        yield box
