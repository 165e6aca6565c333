"""One server, two doors: what E2B's client makes is there for `/v1`, and the other way round."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from e2b_code_interpreter import Sandbox

from e2b import SandboxState

PATH = "/v1/sandboxes"


@pytest.fixture
def v1() -> Iterator[httpx.Client]:
    """The server's own API, with the same key."""
    key = bytes.fromhex(os.environ["E2B_API_KEY"].removeprefix("e2b_")).decode()
    base = os.environ["E2B_API_URL"]
    with httpx.Client(base_url=base, headers={"X-API-Key": key}, timeout=30, trust_env=False) as client:
        yield client


def test_what_the_client_has_made_is_there_for_everybody(sandbox: Sandbox, v1: httpx.Client) -> None:
    sandbox.run_code("x = 40; open('note.txt', 'w').write('seen')")
    name = sandbox.sandbox_id.replace("sbx", "sbx_", 1)

    assert v1.post(f"{PATH}/{name}/run", json={"code": "x + 2"}).json()["text"] == "42"
    assert v1.get(f"{PATH}/{name}/files/note.txt").text == "seen"
    assert v1.get(f"{PATH}/{name}").json()["state"] == "alive"
    sandbox.pause()
    assert v1.get(f"{PATH}/{name}").json()["paused"]
    assert v1.post(f"{PATH}/{name}/run", json={"code": "x"}).status_code == 409
    assert v1.post(f"{PATH}/{name}/resume").status_code == 204
    assert sandbox.run_code("x").text == "40"


def test_what_others_have_made_is_there_for_the_client(v1: httpx.Client) -> None:
    name = v1.post(PATH, json={"metadata": {"a": "b"}}).json()["id"]
    try:
        v1.post(f"{PATH}/{name}/run", json={"code": "y = 'kept'"})
        sandbox = Sandbox.connect(name)
        assert sandbox.run_code("y").text == "kept"
        assert sandbox.sandbox_id == name.replace("_", "")
        assert sandbox.get_info().metadata == {"a": "b"}
        assert v1.post(f"{PATH}/{name}/pause").status_code == 204
        assert sandbox.get_info().state is SandboxState.PAUSED
        sandbox.connect()
        assert sandbox.kill()
        assert v1.get(f"{PATH}/{name}").json()["state"] == "ended"
    finally:
        v1.delete(f"{PATH}/{name}")
