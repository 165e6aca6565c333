"""The largest requests and answers that a server takes part in: none of them holds its event loop.

tests/loop_watch.py watches every test of this folder.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from time import thread_time
from typing import Any

import httpx2
import pytest
from tests.doors.test_hostile_bodies import MAX_BODY, ROUTES, target
from websockets.sync.client import connect

from cloche.doors.loop_watch import COUNTED_S, TICK_S, LoopWatch
from cloche.doors.mcp.streamable import MAX_MESSAGE

ROOM, MCP_ROOM = MAX_BODY - 4096, MAX_MESSAGE - 4096
CODE = "x = 1  # a comment, {with: [brackets]}\n" * 6000  # longer than anything that is looked at without a thread
FLOOD = "import sys; sys.stdout.write('line\\n' * 2_000_000)"
PICTURES = """
from base64 import b64encode
data = b64encode(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(2_500_000)).decode()
for n in range(8): display({"image/png": data}, raw=True)
"""
BYTES = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40_000)"


@pytest.fixture(scope="module")
def box(shared_client: httpx2.Client) -> Iterator[dict[str, Any]]:
    made: dict[str, Any] = shared_client.post("/sandboxes", json={"templateID": "base"}).raise_for_status().json()
    yield made
    shared_client.delete(f"/sandboxes/{made['sandboxID']}")


def test_the_largest_body_of_every_route(http: httpx2.Client, server: Any, box: dict[str, Any]) -> None:
    """Most routes refuse it, once it is parsed and checked."""
    plain = b'{"code": "' + b"a" * ROOM + b'"}'
    escaped = b'{"path": "' + b'\\"\\n' * (ROOM // 4) + b'"}'
    for number, route in enumerate(route for route in ROUTES if route.access.body in ("json", "envelopes")):
        path, headers = target(route, server, box)
        body = escaped if number % 2 or route.access.body == "envelopes" else plain
        if route.access.body == "envelopes":
            body = struct.pack(">BI", 0, len(body)) + body
        if path not in ("/v1/run", "/v1/sandboxes") and not path.endswith("/run"):
            assert (
                http.request(route.method.replace("any", "POST"), path, content=body, headers=headers).status_code < 500
            )


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "code": ("/v1/run", {"code": "#" * ROOM}),
    "code in another alphabet": ("/v1/run", {"code": "# " + "中" * (ROOM // 6 - 10)}),
    "code whose language is detected": ("/v1/run", {"code": CODE * 10, "language": None, "timeout": 1}),
    **{
        f"code in {language}": ("/v1/run", {"code": CODE, "language": language, "build_timeout": 1, "timeout": 1})
        for language in ("c", "cpp", "java", "typescript", "sql")
    },
    "input": ("/v1/run", {"code": "pass", "stdin": "a" * ROOM}),
    "input in base64": ("/v1/run", {"code": "pass", "stdin_base64": b64encode(bytes(ROOM // 4 * 3)).decode()}),
    "a file": ("/v1/run", {"code": "pass", "files": {"a": "a" * ROOM}}),
    "a file in base64": (
        "/v1/run",
        {"code": "pass", "files": {"a": {"base64": b64encode(bytes(ROOM // 4 * 3)).decode()}}},
    ),
    "many files": ("/v1/run", {"code": "pass", "files": {f"d/{number}": "x" for number in range(3000)}}),
    "many arguments": ("/v1/run", {"code": "pass", "args": ["x"] * 10_000}),
    "much output": ("/v1/run", {"code": FLOOD}),
    "output that is not text": ("/v1/run", {"code": BYTES}),
    "much output for a model": ("/v1/run", {"code": FLOOD, "view": "model"}),
    "a cell with much output": ("{box}/run", {"code": FLOOD}),
    "a long display": ("{box}/run", {"code": "from IPython.display import HTML; HTML('a' * 5_000_000)"}),
    "a display of many values": (
        "{box}/run",
        {"code": "display({'application/json': [[]] * 600_000, 'text/plain': ''}, raw=True)"},
    ),
    "many displays": ("{box}/run", {"code": "for n in range(900): display('中' * 5_000)"}),
    "displays for a model": (
        "{box}/run",
        {"code": "for n in range(50): display('word ' * 5_000)", "view": "model", "budget": 1_000_000},
    ),
    "a cell that is too long": ("{box}/run", {"code": "#" * ROOM}),
    "input of a cell": ("{box}/run", {"code": "1", "stdin_base64": b64encode(bytes(ROOM // 4 * 3)).decode()}),
    "input of a command": ("{box}/commands", {"command": ["cat"], "stdin": "a" * ROOM, "wait": True}),
    "a command that is too long": ("{box}/commands", {"command": "#" * ROOM, "wait": True}),
    "arguments that are too long": ("{box}/commands", {"command": ["echo", "a" * ROOM], "wait": True}),
    "a context": ("{box}/contexts", {"env": {"A": "a" * 200_000}}),
    "a shared document": ("/v1/shares", {"title": "a", "files": [{"path": "a", "text": "a\n" * (ROOM // 3)}]}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_large_request(http: httpx2.Client, shared: str, name: str) -> None:
    path, body = REQUESTS[name]
    assert http.post(path.format(box=shared), json=body).status_code < 500


@pytest.mark.parametrize("code", [FLOOD, BYTES], ids=["text", "bytes"])
def test_a_stream_of_much_output(http: httpx2.Client, shared: str, code: str) -> None:
    for path in ("/v1/run", f"{shared}/run"):
        with http.stream("POST", path, json={"code": code}, headers={"Accept": "text/event-stream"}) as answer:
            assert sum(map(len, answer.iter_raw())) > 10_000_000


def test_large_answers(http: httpx2.Client, shared: str) -> None:
    assert http.get("/openapi.json").status_code == http.get("/docs").status_code == 200
    listing = "import os; os.makedirs('many', exist_ok=True)\nfor n in range(8000): open(f'many/{n}', 'w').close()"
    assert http.post(f"{shared}/run", json={"code": listing}).json()["error"] is None
    assert len(http.get(f"{shared}/files", params={"path": "many"}).json()["items"]) == 8000
    for form in ("zip", "tar.gz"):
        assert http.put(f"{shared}/files/archived/big", content=b"abcd" * (4 << 20)).status_code == 200
        assert http.get(f"{shared}/archive", params={"path": "archived", "format": form}).status_code == 200


def test_large_answers_to_e2b(http: httpx2.Client, server: Any, box: dict[str, Any]) -> None:
    envd = {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": box["envdAccessToken"]}
    interpreter = {**envd, "E2b-Sandbox-Port": "49999"}
    make = "import os\nos.makedirs('/home/user/many')\nfor n in range(4000): open(f'/home/user/many/{n}', 'w').close()"
    for code in (FLOOD, "print('中' * 2_000_000, end='')", make):
        assert http.post("/execute", json={"code": code}, headers=interpreter).status_code == 200
    listed = http.post("/filesystem.Filesystem/ListDir", json={"path": "/home/user/many"}, headers=envd)
    assert len(listed.json()["entries"]) == 4000
    message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "head -c 10000000 /dev/zero"]}}).encode()
    kind = {**envd, "Content-Type": "application/connect+json"}
    body = struct.pack(">BI", 0, len(message)) + message
    assert len(http.post("/process.Process/Start", content=body, headers=kind).content) > 13_000_000
    # A stream of a million empty messages, each of which costs more than its five bytes.
    assert http.post("/process.Process/StreamInput", content=bytes(5) * 200_000, headers=kind).status_code == 200


def test_large_messages(server: Any) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with connect(server.url.replace("http", "ws"), additional_headers=headers, max_size=None, proxy=None) as client:
        for request in (
            {"code": "#" * ROOM},
            {"code": "pass", "stdin": "中" * (ROOM // 6)},
            {"code": FLOOD},
            {"code": FLOOD, "session": True, "stream": True},
        ):
            client.send(json.dumps({"type": "execute", **request}))
            while (found := json.loads(client.recv(60)))["type"] not in ("result", "error"):
                pass
            assert found["type"] == "result"


FRAME = b"\x80\0\0\0\0"  # after the first byte: masked, empty
PIECES = {
    "fragments of a message": b"\x01" + FRAME + (b"\x00" + FRAME) * 100_000 + b"\x80" + FRAME,
    "pings": (b"\x89" + FRAME) * 100_000,
}


@pytest.mark.parametrize("name", PIECES)
def test_many_small_frames(server: Any, name: str) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with connect(server.url.replace("http", "ws"), additional_headers=headers, max_size=None, proxy=None) as client:
        client.socket.sendall(PIECES[name])
        client.send(json.dumps({"type": "execute", "code": "print(6 * 7)", "id": 1}))
        while (found := json.loads(client.recv(60))).get("id") != 1 or found["type"] != "result":
            pass
        assert found["output"] == "42\n"


@pytest.mark.parametrize("path", ["/v1/health", "/v1/sandboxes", "/nowhere"])
def test_many_requests_at_once(server: Any, path: str) -> None:
    """The answers come in order, however many requests were sent before the first was read."""
    host, port = server.url.removeprefix("http://").split(":")
    head = f"Host: {host}:{port}\r\nAuthorization: Bearer {server.key}\r\n"
    request, count = f"GET {path} HTTP/1.1\r\n{head}\r\n".encode(), 1500
    last = f"GET {path}?last HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode()
    with socket.create_connection((host, int(port)), timeout=60) as client:
        sender = Thread(target=client.sendall, args=(request * (count - 1) + last,))
        sender.start()
        answers = b"".join(iter(lambda: client.recv(1 << 20), b""))
        sender.join()
    assert answers.count(b"HTTP/1.1 ") == count


def test_many_long_listings_at_once(http: httpx2.Client, server: Any, new_sandbox: Callable[..., str]) -> None:
    sandbox = new_sandbox()
    code = "import os; os.mkdir('many'); [open(f'many/{number}', 'w').close() for number in range(10_000)]"
    assert http.post(f"{sandbox}/run", json={"code": code}).json()["error"] is None

    def listed(_: int) -> int:
        with server.client() as client:
            return len(client.get(f"{sandbox}/files?path=many").content)

    with ThreadPoolExecutor(20) as pool:
        assert min(pool.map(listed, range(20))) > 400_000


def test_a_body_of_many_small_chunks(server: Any) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"code": "print(len('" + "a" * 300_000 + "'))"}).encode()
    head = (
        f"POST /v1/run HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {server.key}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(head.encode() + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert b"300000" in b"".join(iter(lambda: client.recv(1 << 20), b""))


def test_large_calls_of_mcp_tools(http: httpx2.Client) -> None:
    headers = {"Accept": "application/json, text/event-stream"}

    def call(method: str, **params: Any) -> httpx2.Response:
        answer = http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers
        )
        assert answer.status_code == 200
        return answer

    client = {"name": "test", "version": "1"}
    begun = call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
    http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    for name, arguments in (
        ("files_write", {"path": "a", "content": "a" * MCP_ROOM}),
        ("files_write", {"path": "a", "content_base64": b64encode(bytes(MCP_ROOM // 4 * 3)).decode()}),
        ("files_read", {"path": "a", "length": 1 << 20}),
        ("code_execution", {"code": "#" * 1_000_000}),
        ("code_execution", {"code": FLOOD}),
        ("code_execution", {"code": PICTURES}),
    ):
        call("tools/call", name=name, arguments=arguments)


# --- the watch itself


class ClockOfTheTest:
    """CPU time that passes when a test says so, because the host's stalls pass for the thread's own on the real one."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("used", [0.0, COUNTED_S + TICK_S - 0.001, COUNTED_S + TICK_S + 0.001])
async def test_a_hold_is_counted(used: float) -> None:
    counted: list[float] = []
    clock = ClockOfTheTest()
    watch = LoopWatch(counted.append, clock)
    try:
        clock.now += used
        tick(watch)
        assert counted == ([pytest.approx(used - TICK_S)] if used > COUNTED_S + TICK_S else [])
    finally:
        watch.stop()


async def test_a_hold_is_named(caplog: pytest.LogCaptureFixture) -> None:
    counted = asyncio.Event()
    watch = LoopWatch(lambda _: counted.set())
    try:
        with caplog.at_level("INFO", "cloche.loop"):
            busy()
            async with asyncio.timeout(10):
                await counted.wait()
        assert "busy" in caplog.text
    finally:
        watch.stop()


@pytest.mark.parametrize("is_split", [False, True])
async def test_pieces_of_work_between_which_the_loop_was_seen_are_not_one(is_split: bool) -> None:
    counted: list[float] = []
    clock = ClockOfTheTest()
    watch = LoopWatch(counted.append, clock)
    try:
        for _ in range(3):
            clock.now += 0.03
            if is_split:
                watch._split()
        tick(watch)
        assert bool(counted) != is_split
    finally:
        watch.stop()


def tick(watch: LoopWatch) -> None:
    """Do now what the watch's timer would do."""
    watch._timer.cancel()
    watch._tick()


def busy() -> None:
    begin = thread_time()
    while thread_time() - begin < 0.2:
        pass


def test_holds_are_in_the_metrics(http: httpx2.Client) -> None:
    assert "cloche_loop_held_seconds_count" in http.get("/metrics").text
