"""Whichever door work comes through: it is in the audit log, and none begins when the key's day is used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.doors.test_mcp import client_of
from tests.e2b.test_envd import Envd, shell
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

BURN = "import time\nwhile time.process_time() < 0.5: pass"


def terminal(client: httpx2.Client, sandbox: str) -> int:
    address = f"{str(client.base_url).replace('http', 'ws')}/v1/sandboxes/{sandbox}/terminal?command=true"
    try:
        with connect(address, additional_headers={"Authorization": client.headers["authorization"]}) as socket:
            list(socket)
    except InvalidStatus as refusal:
        return refusal.response.status_code
    return 200


async def mcp(server: Any, client: httpx2.Client) -> int:
    async with client_of(server, client.headers["authorization"].removeprefix("Bearer ")) as tools:
        told = await tools.call_tool("code_execution", {"code": "1"})
        return 429 if told.is_error and "CPU seconds" in str(told.content) else 200


def process(envd: Envd) -> int:
    told = envd.stream("process.Process/Start", shell("true"))
    return 429 if "resource_exhausted" in str(told) else 200


@pytest.mark.parametrize("is_spent", [False, True])
async def test_work_through_every_door(
    http: httpx2.Client, server: Any, new_key: Callable[..., httpx2.Client], is_spent: bool
) -> None:
    ada = new_key("door", limits={"cpu_seconds_per_day": 0.4 if is_spent else 1000})
    box = ada.post("/v1/sandboxes", json={}).json()["id"]
    path, envd = f"/v1/sandboxes/{box}", Envd(ada)
    execute = {**envd.headers, "E2b-Sandbox-Port": "49999"}
    run, exec_ = {"code": "1"}, {"id": box, "command": "true"}
    if is_spent:
        assert ada.post("/v1/run", json={"code": BURN}).status_code == 200
    doors: dict[str, Callable[[], Any]] = {
        "a program": lambda: ada.post("/v1/run", json=run).status_code,
        "a cell": lambda: ada.post(f"{path}/run", json=run).status_code,
        "a command": lambda: ada.post(f"{path}/commands", json={"command": "true"}).status_code,
        "an awaited command": lambda: ada.post(f"{path}/commands", json={"command": "true", "wait": True}).status_code,
        "an attempt": lambda: ada.post(f"{path}/attempts", json=run).status_code,
        "a context": lambda: ada.post(f"{path}/contexts", json={"language": "python"}).status_code,
        "a terminal": lambda: terminal(ada, box),
        "a container": lambda: ada.post("/containers/exec", json=exec_).status_code,
        "a process of E2B": lambda: process(envd),
        "a cell of E2B": lambda: ada.post("/execute", json=run, headers=execute).status_code,
        "a tool of MCP": lambda: mcp(server, ada),
    }

    def audited() -> dict[str, Any]:
        found = http.get("/v1/audit", params={"owner": "door", "limit": 500}).json()["items"]
        kinds = {"run", "command.start", "session.create_context"}
        mine = [one for one in found if one["key"] == ada.headers["x-test-key-id"]]
        return {one["id"]: one for one in mine if one["action"] in kinds}

    known = audited()
    for door, enter in doors.items():
        status = enter()
        status = status if isinstance(status, int) else await status
        fresh = audited().keys() - known.keys()
        known = audited()
        assert (status == 429) == is_spent, (door, status)
        assert len(fresh) == (not is_spent), door
    envd.kill()
    ada.delete(path)
