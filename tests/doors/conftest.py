"""What tests of the doors share: a sandbox on the shared server, and somebody else's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.loop_watch import pytest_pyfunc_call as pytest_pyfunc_call  # no test may hold the server's event loop


@pytest.fixture
def new_sandbox(http: httpx2.Client) -> Iterator[Callable[..., str]]:
    """Makes sandboxes that end with the test; answers their addresses."""
    made: list[str] = []

    def make(**wish: Any) -> str:
        answer = http.post("/v1/sandboxes", json=wish)
        assert answer.status_code == 201, answer.text
        made.append(f"/v1/sandboxes/{answer.json()['id']}")
        return made[-1]

    yield make
    for path in made:
        assert http.delete(path).status_code == 204


@pytest.fixture
def sandbox(new_sandbox: Callable[..., str]) -> str:
    """The address of a fresh sandbox."""
    return new_sandbox()


@pytest.fixture(scope="module")
def shared_client(server: Any) -> Iterator[httpx2.Client]:
    """A client for what a module's tests share."""
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def shared(shared_client: httpx2.Client) -> Iterator[str]:
    """The address of a sandbox for tests that do not mind what others left in it."""
    path = f"/v1/sandboxes/{shared_client.post('/v1/sandboxes', json={}).json()['id']}"
    yield path
    assert shared_client.delete(path).status_code == 204


@pytest.fixture
def new_key(http: httpx2.Client, server: Any) -> Iterator[Callable[..., httpx2.Client]]:
    """Makes clients with keys of their own, revoked when the test ends; `key_id` is in their headers."""
    made: list[tuple[str, httpx2.Client]] = []

    def make(owner: str = "ada", **more: Any) -> httpx2.Client:
        answer = http.post("/v1/keys", json={"owner": owner, "name": "test", **more})
        assert answer.status_code == 201, answer.text
        client: httpx2.Client = server.client(key=answer.json()["key"])
        client.headers["x-test-key-id"] = answer.json()["id"]
        made.append((answer.json()["id"], client))
        return client

    yield make
    for identity, client in made:
        client.close()
        http.delete(f"/v1/keys/{identity}")
