"""Long answers that are no streams, asked for by clients that read nothing: they cost little memory together."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack

import httpx2
from starlette.types import Message
from tests.conftest import Server
from tests.doors.test_readers import Request, Scene, get, head, opened
from tests.waiting import eventually

from cloche.doors.mcp.streamable import EventStream
from cloche.doors.page.files import BUILT

CLIENTS = 30
BOUND = 80 << 20  # bytes by which the server may grow; each command's result alone has 10 MB
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def post(path: str, body: object, **headers: str) -> Request:
    return lambda scene: head(scene, "POST", path, {**JSON, **headers}, json.dumps(body).encode())


def rpc(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def begun(http: httpx2.Client) -> dict[str, str]:
    """Begin a conversation over MCP, and return the header that names it."""
    client = {"name": "test", "version": "1"}
    begin = rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    conversation = {"mcp-session-id": http.post("/mcp", json=begin, headers=JSON).headers["mcp-session-id"]}
    http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=JSON | conversation)
    return conversation


def test_answers_that_nobody_reads_cost_little(serve: Callable[..., Server]) -> None:
    server = serve()
    with server.client() as http:
        path = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        prints = {"command": "head -c 12000000 /dev/zero | tr '\\0' x"}
        command = http.post(f"{path}/commands", json=prints).json()["id"]
        eventually(lambda: not http.get(f"{path}/commands/{command}").json()["running"])
        run = http.post("/v1/run", json={"code": "print('x' * 900_000)"}).json()["run_id"]
        conversation = begun(http)
        asset = max(BUILT.glob("assets/*.js"), key=lambda file: file.stat().st_size)
        answers: dict[str, Request] = {
            "a command": get("{s.path}/commands/{s.command}"),
            "a run": get("/v1/runs/{s.run}"),
            "a program of the page": get(f"/assets/{asset.name}"),
            "the description": get("/openapi.json"),
            "MCP's tools": post("/mcp", rpc("tools/list"), **conversation),
        }
        scene = Scene(server, http, path.rpartition("/")[2], command, "", run, "", {})
        for name, request in answers.items():
            with opened(scene, request) as first:
                assert first.beginning().startswith(b"HTTP/1.1 200 "), (name, first.beginning())
            before = scene.resident()
            with ExitStack() as stack:
                for silent in [stack.enter_context(opened(scene, request)) for _ in range(CLIENTS)]:
                    assert silent.beginning().startswith(b"HTTP/1.1 200 "), name
                assert scene.resident() - before < BOUND, name
                assert http.get("/v1/health").status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_mcp_gives_up_an_answer_when_its_client_leaves() -> None:
    size, clients = 1_000_000, 10

    async def leave() -> None:
        sending = asyncio.Event()

        async def events() -> AsyncIterator[dict[str, str]]:
            yield {"data": "x" * size}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                sending.set()
                await asyncio.Event().wait()  # the client reads nothing

        async def receive() -> Message:
            await sending.wait()
            return {"type": "http.disconnect"}

        await EventStream(events())(
            {"type": "http", "state": {}, "headers": [], "method": "POST", "path": "/"}, receive, send
        )

    async def leave_often() -> int:
        await leave()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(clients):
            await leave()
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    gc.disable()
    try:
        assert asyncio.run(leave_often()) < clients * size // 4
    finally:
        gc.enable()
        tracemalloc.stop()


def test_mcp_repeats_little_of_a_wrong_argument(server: Server) -> None:
    with server.client() as http:
        conversation = begun(http)
        for arguments in ({"u" * 3_000_000: 1}, {"path": "\u202e" * 1_000_000}, {"session": "u" * 3_000_000}):
            call = rpc("tools/call", name="files_read", arguments=arguments)
            answer = http.post("/mcp", json=call, headers=JSON | conversation)
            assert answer.status_code == 200
            assert len(answer.text) < 100_000
