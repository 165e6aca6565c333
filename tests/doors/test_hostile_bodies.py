"""Bodies that describe more than anybody needs, or that are no JSON: every route of every door refuses them at once.

The routes come from the table of declarations, so a new route is attacked as soon as it exists.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from cloche.configuration import Configuration
from cloche.doors.gate.declarations import Declared
from cloche.doors.json_input import MAX_DEPTH, MAX_VALUES
from cloche.doors.server import application
from cloche.policy.amounts import MOST

MAX_GROWTH = 150 << 20  # bytes of memory that the server may take for all of these requests
MAX_BODY = Configuration().max_body
PIECE = 256 << 10

service = MagicMock()
service.configuration = Configuration()
ROUTES = [
    route
    for route in application(service, MagicMock()).declarations()
    if route.method in ("POST", "PUT", "PATCH", "any") and route.access.body != "stream"
]
BODIES = {
    "five million empty lists": b'{"args": [' + b"[]," * 4_999_999 + b"[]]}",
    "a million names": b'{"env": {' + b",".join(b'"%d":""' % number for number in range(1_000_000)) + b"}}",
    "a million texts": b'{"args": [' + b'"",' * 999_999 + b'""]}',
    "a depth of 100,000": b"[" * 100_000 + b"]" * 100_000,
    "open lists": b"[" * 100_000,
    "a byte too many": b'"' + b"a" * (MAX_BODY - 1) + b'"',
    "not UTF-8": b'{"code": "\xff\xfe"}',
    "UTF-16": '{"code": "1"}'.encode("utf-16"),
    "cut off": b'{"code": "1',
    "the same name twice": b'{"code": "1", "code": "2"}',
    "NaN": b'{"code": "1", "timeout": NaN}',
    "a number of 5,000 digits": b'{"code": "1", "timeout": ' + b"9" * 5000 + b"}",
}
HUGE = ("five million empty lists", "a million names", "a million texts", "a byte too many")


@pytest.fixture(scope="module")
def box(shared_client: httpx2.Client) -> Iterator[dict[str, Any]]:
    made: dict[str, Any] = shared_client.post("/sandboxes", json={"templateID": "base"}).raise_for_status().json()
    yield made
    shared_client.delete(f"/sandboxes/{made['sandboxID']}")


@pytest.fixture
def clean_log(server: Any) -> Iterator[None]:
    """The server logs no traceback meanwhile."""
    begin = server.log.stat().st_size
    yield
    with open(server.log, "rb") as log:
        log.seek(begin)
        assert b"Traceback" not in log.read()


@pytest.fixture
def bounded_memory(server: Any) -> Iterator[None]:
    """The server's memory hardly grows meanwhile, not even for a moment."""
    process = Path("/proc", str(server.process.pid))
    (process / "clear_refs").write_text("5")  # the peak is measured from now on
    before = memory(process, "VmHWM")
    yield
    assert memory(process, "VmHWM") - before < MAX_GROWTH


def memory(process: Path, name: str) -> int:
    line = next(line for line in (process / "status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10


def send(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """Send a request until its answer comes; a client that waited for the end would not see how early that is."""
    head = {"Host": f"localhost:{port}", "Content-Length": str(len(body)), "Connection": "close", **headers}
    text = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode())
        sent = 0
        while sent < len(body):
            readable, writable, _ = select.select([connection], [connection], [], 30)
            if readable:
                break
            assert writable
            try:
                sent += connection.send(body[sent : sent + PIECE])
            except ConnectionError:
                break
        return int(connection.recv(100).split()[1])


def target(route: Declared, server: Any, box: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The path of a route, and the headers with which a client would get through to it."""
    identity = box["sandboxID"].replace("sbx", "sbx_", 1)
    path = route.path.replace("{sandbox_id}", identity)
    path = path.replace("{name}", box["sandboxID"]) if route.door == "E2B" else path
    for variable in ("{port}", "{call}"):
        path = path.replace(variable, "8000")
    path = "/".join("nothing" if part.startswith("{") else part for part in path.split("/"))
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    if ", port " in route.door:
        headers["E2b-Sandbox-Id"], headers["E2b-Sandbox-Port"] = box["sandboxID"], route.door.rpartition(" ")[2]
        headers["X-Access-Token"] = box["envdAccessToken"]
    if route.door == "MCP":
        headers["Accept"] = "application/json, text/event-stream"
    if route.access.body == "envelopes":
        headers["Content-Type"] = "application/connect+json"
    return path, headers


@pytest.mark.parametrize("name", BODIES)
def test_every_route_refuses_it_at_once(
    server: Any, box: dict[str, Any], name: str, clean_log: None, bounded_memory: None
) -> None:
    body = BODIES[name]
    wrong: list[tuple[str, str, int]] = []
    for route in ROUTES:
        kind = route.access.body
        if kind in ("upload", "encoded") or (kind == "none" and name not in HUGE):
            continue  # these routes take any bytes, or read none
        path, headers = target(route, server, box)
        sent = struct.pack(">BI", 0, len(body)) + body if kind == "envelopes" else body
        status = send(server.port, "POST" if route.method == "any" else route.method, path, headers, sent)
        # A stream of E2B's begins with 200 and ends with the error.
        if not 400 <= status < 500 and (kind, status) != ("envelopes", 200):
            wrong.append((route.method, path, status))
    assert len(ROUTES) > 60
    assert not wrong, (name, wrong)


@pytest.mark.parametrize("field", MOST)
def test_a_field_with_too_many_items_is_named(http: httpx2.Client, field: str) -> None:
    for many in ([""] * (MOST[field] + 1), {str(number): "" for number in range(MOST[field] + 1)}):
        answer = http.post("/v1/run", json={"code": "1", field: many})
        assert answer.status_code == 400
        assert f"`{field}`" in answer.json()["error"]["message"]
        assert str(MOST[field]) in answer.json()["error"]["message"]


def test_as_many_items_as_allowed_are_taken(http: httpx2.Client) -> None:
    body = {
        "code": "import os, sys; print(len(sys.argv), os.environ['V999'], len(os.listdir('many')))",
        "args": ["x"] * 10_000,
        "env": {f"V{number}": "1" for number in range(MOST["env"])},
        "files": {f"many/{number}": "" for number in range(100)},
    }
    assert http.post("/v1/run", json=body).json()["stdout"] == "10001 1 100\n"


def test_filters_are_bounded(http: httpx2.Client) -> None:
    answer = http.get("/v1/sandboxes", params={f"metadata.{number}": "1" for number in range(2000)})
    assert answer.status_code == 400
    assert str(MOST["filters"]) in answer.json()["error"]["message"]
    assert http.get("/v1/sandboxes", params={"metadata.a": "1"}).status_code == 200


def test_mistakes_are_reported_one_at_a_time(http: httpx2.Client) -> None:
    mistakes: list[dict[str, Any]] = [
        {"args": [[]] * 10_000},
        {"env": {str(number): number for number in range(1000)}},
        {"files": {str(number): [] for number in range(10_000)}},
        {"command": [[]] * 10_000},
    ]
    for wrong in mistakes:
        answer = http.post("/v1/run", json={"code": "1", **wrong})
        assert answer.status_code == 422
        assert len(answer.content) < 2000


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "\\udc80", "\\uffff", "\\u202e", "a" * 5000])
def test_strange_texts_are_no_failures_of_ours(server: Any, box: dict[str, Any], text: str, clean_log: None) -> None:
    """In every field of the largest bodies, and as a name."""
    value = f'"{text}"'
    names = (
        "code language entry stdin cwd name context command checkpoint title owner path new_path signal data cmd tag"
    )
    fields = ",".join(f'"{name}": {value}' for name in names.split())
    bodies = [f'{{"{name}": {value}}}' for name in names.split()]
    bodies += [f'{{"code": "1", "{name}": {{{value}: "1"}}}}' for name in ("env", "files", "metadata", "mounts")]
    bodies += [f'{{"code": "1", "{name}": {{"A": {value}}}}}' for name in ("env", "files", "metadata", "mounts")]
    bodies += [f'{{"code": "1", "args": [{value}]}}', f'{{"command": [{value}]}}', f"{{{fields}}}", value]
    found = []
    for path in ("/v1/run", "/v1/sandboxes/{sandbox_id}/run", "/v1/sandboxes/{sandbox_id}/commands"):
        for body in bodies:
            route = Declared("HTTP", "POST", path, ROUTES[0].access)
            found.append((send(server.port, "POST", *target(route, server, box), body.encode()), path, body[:100]))
    assert not [one for one in found if one[0] >= 500]


# --- WebSockets


@pytest.mark.parametrize("path", ["/", "/v1/sandboxes/{}/live", "/v1/sandboxes/{}/terminal"])
@pytest.mark.parametrize("name", [name for name in BODIES if name not in ("not UTF-8", "UTF-16", "a byte too many")])
async def test_a_message_is_refused_and_the_next_is_answered(
    server: Any, sandbox: str, path: str, name: str, clean_log: None
) -> None:
    async with opened(server, path, sandbox) as client:
        await client.send(BODIES[name].decode())
        assert (await error_of(client))["message"]
        await client.send('{"type": "nonsense"}')
        assert (await error_of(client))["message"]


@pytest.mark.parametrize("path", ["/", "/v1/sandboxes/{}/live", "/v1/sandboxes/{}/terminal"])
async def test_text_that_is_not_utf8_closes_the_websocket(
    server: Any, sandbox: str, path: str, clean_log: None
) -> None:
    async with opened(server, path, sandbox) as client:
        client.protocol.send_text(b'{"type": "\xff"}', True)
        client.send_data()
        with pytest.raises(ConnectionClosed) as closed:
            await error_of(client)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1007


def opened(server: Any, path: str, sandbox: str) -> Any:
    address = server.url.replace("http", "ws") + path.format(sandbox.rpartition("/")[2])
    headers = {"Authorization": f"Bearer {server.key}"}
    return connect(address, additional_headers=headers, max_size=None, proxy=None)


async def error_of(client: Any) -> dict[str, Any]:
    while True:
        async with asyncio.timeout(30):
            received = await client.recv()
        if isinstance(received, str):
            message: dict[str, Any] = json.loads(received)
            if message["type"] == "error":
                return message


# --- the bounds themselves


def nested(depth: int) -> bytes:
    return b'{"value": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("make", "most"),
    [(nested, MAX_DEPTH), (lambda count: b'{"value": [' + b"1," * (count - 2) + b"1]}", MAX_VALUES)],
)
def test_the_bounds_are_exact(http: httpx2.Client, make: Callable[[int], bytes], most: int) -> None:
    path, kind = "/v1/runs/nothing/calls/1", {"Content-Type": "application/json"}
    assert http.post(path, content=make(most), headers=kind).status_code == 404  # there is no such run
    answer = http.post(path, content=make(most + 1), headers=kind)
    assert answer.status_code == 400
    assert str(most) in answer.json()["error"]["message"]
