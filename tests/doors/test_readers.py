"""Readers that read nothing, at every stream of every door: they cost little, disturb nobody, and are bounded.

`OPENERS` has a case for every route that declares a stream, so a new stream without a case fails a test here.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest
from tests.conftest import Server
from tests.waiting import eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cloche.configuration import Configuration
from cloche.doors.e2b import envd
from cloche.doors.e2b.envd import processes, watching
from cloche.doors.server import application

READERS = 20  # that open each stream and read nothing
LOG = 12 << 20  # bytes that each of them could read
BOUND = 25 << 20  # bytes by which the server may grow meanwhile; one copy for each reader would be ten times as much
MANY = {"readers_per_key": "1000", "readers_per_sandbox": "500"}
SSE = {"Accept": "text/event-stream"}
# A server in a sandbox that sends without end, over HTTP, over WebSockets and to anybody else.
FLOOD = r"""
import base64, hashlib, re, socket, struct, threading
def serve(client):
    try:
        asked = client.recv(65536)
        key = re.search(rb"sec-websocket-key: (\S+)", asked, re.I)
        data = b"x" * 65536
        if key:
            accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            upgrade = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            client.sendall(upgrade + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            data = b"\x82\x7f" + struct.pack(">Q", 1 << 18) + b"x" * (1 << 18)  # exists as a whole
        else:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True: client.sendall(data)
    except OSError:
        client.close()
listening = socket.create_server(("127.0.0.1", 8000), backlog=200)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
BEGINS = (b"HTTP/1.1 200 ", b"HTTP/1.1 101 ")


@dataclass
class Scene:
    """A server with a sandbox in which there is much to read."""

    server: Server
    http: httpx2.Client
    sandbox: str
    command: str
    terminal: str
    run: str
    token: str
    e2b: dict[str, str]

    @property
    def path(self) -> str:
        return f"/v1/sandboxes/{self.sandbox}"

    def resident(self) -> int:
        with open(f"/proc/{self.server.process.pid}/statm") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture(scope="module")
def scene(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MANY.items()]
    server = Server(tmp_path_factory.mktemp("readers"), *flags, env={"CLOCHE_WARM": "0"})
    with ExitStack() as stack:
        stack.callback(server.stop)
        http = stack.enter_context(server.client())
        made = http.post("/v1/sandboxes", json={"processes": 500, "memory": "1G"}).json()
        path = f"/v1/sandboxes/{made['id']}"
        big = f"open('big', 'wb').write(bytes({LOG}))"
        run = http.post(f"{path}/run", json={"code": f"{big}\nfor _ in range(9): print('x' * 1_000_000)"}).json()
        print_much = f"head -c {LOG} /dev/zero | tr '\\0' x; sleep 600"
        command = http.post(f"{path}/commands", json={"command": print_much}).json()["id"]
        terminal = http.post(f"{path}/commands", json={"command": print_much, "pty": True}).json()["id"]
        http.post(f"{path}/commands", json={"code": FLOOD, "language": "python"}).raise_for_status()
        log = "head -c 4000000 /dev/zero | tr '\\0' x | fold; sleep 600"
        http.post("/v1/environments", json={"name": "flood", "setup": log}).raise_for_status()
        token = (
            eventually(lambda: http.post(f"{path}/ports/8000", json={}).json().get("url"))
            .partition("://")[2]
            .partition(".")[0]
        )
        made = http.post("/sandboxes", json={"templateID": "base"}).json()
        e2b = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
        found = Scene(server, http, path.rpartition("/")[2], command, terminal, run["run_id"], token, e2b)
        shell = {"process": {"cmd": "sh", "args": ["-c", "sleep 1; yes"]}, "tag": "flood"}
        stack.enter_context(opened(found, envd_start(shell)))
        program = {"process": {"cmd": "python3", "args": ["-c", FLOOD]}}
        stack.enter_context(opened(found, envd_start(program)))
        eventually(lambda: _is_written(found))
        yield found


def _is_written(scene: Scene) -> bool:
    """Whether the commands have printed all that the readers will not read."""
    counted = scene.http.post(f"{scene.path}/commands", json={"command": "pgrep -xc sleep", "wait": True}).json()
    return int(counted["stdout"]) >= 2


# --- how a client opens each stream

Request = Callable[[Scene], bytes]


def head(scene: Scene, method: str, path: str, headers: dict[str, str], body: bytes = b"", host: str = "") -> bytes:
    key = {} if "X-Access-Token" in headers else {"Authorization": f"Bearer {scene.server.key}"}
    length = {"Content-Length": str(len(body))} if method == "POST" else {}
    lines = {"Host": host or f"localhost:{scene.server.port}", **key, **length, **headers}
    fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{fields}\r\n".encode() + body


def get(path: str, **headers: str) -> Request:
    """`path` may name parts of the scene."""
    return lambda scene: head(scene, "GET", path.format(s=scene), {**SSE, **headers})


def post(path: str, body: Any) -> Request:
    kind = {**SSE, "Content-Type": "application/json"}
    return lambda scene: head(scene, "POST", path.format(s=scene), kind, json.dumps(body).encode())


def envd_start(told: Any, name: str = "process.Process/Start") -> Request:
    data = json.dumps(told).encode()
    data = struct.pack(">BI", 0, len(data)) + data
    kind = {"Content-Type": "application/connect+json", "E2b-Sandbox-Port": "49983"}
    return lambda scene: head(scene, "POST", f"/{name}", {**kind, **scene.e2b}, data)


def e2b(method: str, path: str, port: int, body: Any = None) -> Request:
    data = b"" if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json", "E2b-Sandbox-Port": str(port)}
    return lambda scene: head(scene, method, path, {**kind, **scene.e2b}, data)


def websocket(path: str, *messages: Any, host: str = "") -> Request:
    """A handshake, and messages behind it."""

    def request(scene: Scene) -> bytes:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        upgrade["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
        sent = head(scene, "GET", path.format(s=scene), upgrade, host=host.format(s=scene))
        for message in messages:
            text = (
                message
                if isinstance(message, bytes)
                else json.dumps(message).replace("COMMAND", scene.command).encode()
            )
            sent += bytes([0x81, 0x80 | 126]) + struct.pack(">H", len(text)) + bytes(4) + text  # masked with zeros
        return sent

    return request


PRINTS = {"code": "print('x' * 3_000_000)"}
SHOWS = {"code": "from IPython.display import display, HTML\ndisplay(HTML('x' * 3_000_000))"}
# By door, method and path: a request, how many readers send it, and by how much the server may grow.
OPENERS: dict[tuple[str, str, str], tuple[Request, int, int]] = {
    ("HTTP", "GET", "/v1/runs/{run_id}/events"): (get("/v1/runs/{s.run}/events"), READERS, BOUND),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/commands/{command}/events"): (
        get("{s.path}/commands/{s.command}/events"),
        READERS,
        BOUND,
    ),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/events"): (get("{s.path}/events?after=0"), READERS, BOUND),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/usage"): (get("{s.path}/usage"), READERS, BOUND),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/watch"): (get("{s.path}/watch"), READERS, BOUND),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/archive"): (get("{s.path}/archive?format=tar"), READERS, 2 * BOUND),
    ("HTTP", "GET", "/v1/sandboxes/{sandbox_id}/files/{path}"): (get("{s.path}/files/big"), READERS, 2 * BOUND),
    ("HTTP", "GET", "/v1/environments/{name}/events"): (get("/v1/environments/flood/events"), READERS, BOUND),
    # These start runs, of which the server keeps what they print as long as there is room.
    ("HTTP", "POST", "/v1/run"): (post("/v1/run", PRINTS), 2, 2 * BOUND),
    ("HTTP", "POST", "/v1/sandboxes/{sandbox_id}/run"): (post("{s.path}/run", PRINTS), 2, 2 * BOUND),
    ("HTTP", "POST", "/v1/sandboxes/{sandbox_id}/attempts"): (post("{s.path}/attempts", PRINTS), 2, 2 * BOUND),
    ("HTTP", "POST", "/v1/sandboxes/{sandbox_id}/best_of"): (
        post("{s.path}/best_of", {"candidates": [PRINTS["code"]], "score": "1"}),
        2,
        2 * BOUND,
    ),
    ("HTTP", "WebSocket", "/"): (websocket("/", {"type": "execute", "stream": True, **PRINTS}), 2, 2 * BOUND),
    ("HTTP", "WebSocket", "/v1/sandboxes/{sandbox_id}/terminal"): (
        websocket("{s.path}/terminal?id={s.terminal}"),
        READERS,
        BOUND,
    ),
    ("HTTP", "WebSocket", "/v1/sandboxes/{sandbox_id}/live"): (
        websocket("{s.path}/live", {"type": "follow", "command": "COMMAND"}),
        READERS,
        BOUND,
    ),
    ("HTTP", "any", "/v1/sandboxes/{sandbox_id}/ports/{port}/{path}"): (
        get("{s.path}/ports/8000/"),
        READERS,
        2 * BOUND,
    ),
    ("HTTP", "WebSocket", "/v1/sandboxes/{sandbox_id}/ports/{port}/{path}"): (
        websocket("{s.path}/ports/8000/"),
        READERS,
        2 * BOUND,
    ),
    ("HTTP", "WebSocket", "/v1/sandboxes/{sandbox_id}/tunnel"): (
        websocket("{s.path}/tunnel?port=8000"),
        READERS,
        2 * BOUND,
    ),
    # Only the address with a slash leads to the server.
    ("ports", "any", "/ports/{token}"): (get("/ports/{s.token}"), READERS, BOUND),
    ("ports", "any", "/ports/{token}/{path}"): (get("/ports/{s.token}/"), READERS, 2 * BOUND),
    ("ports", "WebSocket", "/ports/{token}"): (websocket("/ports/{s.token}"), READERS, 2 * BOUND),
    ("ports", "WebSocket", "/ports/{token}/{path}"): (websocket("/ports/{s.token}/"), READERS, 2 * BOUND),
    ("ports", "any", "TOKEN.localhost"): (
        lambda scene: head(scene, "GET", "/", {}, host=f"{scene.token}.localhost:{scene.server.port}"),
        READERS,
        2 * BOUND,
    ),
    ("ports", "WebSocket", "TOKEN.localhost"): (
        websocket("/", host="{s.token}.localhost:{s.server.port}"),
        READERS,
        2 * BOUND,
    ),
    # The SDK lets a conversation have one such stream, which is quiet; this one has no conversation.
    ("MCP", "any", "/mcp"): (get("/mcp"), READERS, BOUND),
    ("E2B, port 49983", "any", "/files"): (e2b("GET", "/files?path=/etc/passwd", 49983), READERS, BOUND),
    ("E2B, port 49983", "POST", "/process.Process/Start"): (
        envd_start({"process": {"cmd": "yes"}}),
        4,
        2 * BOUND,
    ),
    ("E2B, port 49983", "POST", "/process.Process/Connect"): (
        envd_start({"process": {"tag": "flood"}}, "process.Process/Connect"),
        READERS,
        BOUND,
    ),
    ("E2B, port 49983", "POST", "/filesystem.Filesystem/WatchDir"): (
        envd_start({"path": "/home/user"}, "filesystem.Filesystem/WatchDir"),
        READERS,
        BOUND,
    ),
    ("E2B, port 49999", "POST", "/execute"): (e2b("POST", "/execute", 49999, SHOWS), 2, 2 * BOUND),
    ("E2B, other ports", "any", "PORT-SANDBOX.localhost"): (e2b("GET", "/", 8000), READERS, BOUND),
}
# With these requests.
NO_STREAM = {("ports", "any", "/ports/{token}"), ("ports", "WebSocket", "/ports/{token}"), ("MCP", "any", "/mcp")}


def _declared() -> list[Any]:
    service = MagicMock()
    service.configuration = Configuration()
    return application(service, MagicMock()).declarations()


ROUTES = _declared()


def named(route: Any) -> tuple[str, str, str]:
    return route.door, route.method, route.path.replace(":file}", "}").replace(":path}", "}")


def test_every_declared_stream_has_a_case_here() -> None:
    assert {named(route) for route in ROUTES if route.access.stream != "none"} == set(OPENERS)


def test_every_route_that_can_stream_declares_it() -> None:
    from cloche.doors.http import app

    service = MagicMock()
    service.configuration = Configuration()
    built = app.build(service, MagicMock(), MagicMock(), MagicMock())
    all_routes: list[Any] = list(built.router.routes)
    streaming = {"text/event-stream", "application/zip"}
    forgotten = [
        f"{route.path}"
        for route in all_routes
        for answer in getattr(route, "responses", {}).values()
        if streaming & set(answer.get("content", {})) and route.access.stream == "none"
    ]
    forgotten += [route.path for route in ROUTES if route.method == "WebSocket" and route.access.stream == "none"]
    names = [f"/process.Process/{name}" for name in processes.STREAMS]
    names += [f"/filesystem.Filesystem/{name}" for name in watching.STREAMS]
    forgotten += [name for name in names if envd.ROUTES["POST", name].access.stream == "none"]
    assert forgotten == []


# --- what they cost


class opened:
    """A client that opens a stream and reads nothing."""

    def __init__(self, scene: Scene, request: Request) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the kernel should not read for us
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", scene.server.port))
        head, end, messages = request(scene).partition(b"\r\n\r\n")
        is_websocket = b"Upgrade: websocket" in head
        self.socket.sendall(head + end + (b"" if is_websocket else messages))
        if is_websocket and messages:
            eventually(lambda: end in self.socket.recv(4096, socket.MSG_PEEK))  # what comes before the answer is lost
            self.socket.sendall(messages)

    def __enter__(self) -> opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def beginning(self) -> bytes:
        """The first bytes of the answer; they stay unread."""
        return self.socket.recv(64, socket.MSG_PEEK)


@pytest.mark.parametrize("name", OPENERS, ids=" ".join)
def test_silent_readers_cost_little_and_disturb_nobody(scene: Scene, name: tuple[str, str, str]) -> None:
    request, count, bound = OPENERS[name]
    with opened(scene, request) as first:
        first.beginning()  # what is loaded or cached at the first use is not the readers'
        before = scene.resident()
        with ExitStack() as stack:
            silent = [stack.enter_context(opened(scene, request)) for _ in range(count)]
            for reader in silent if count == READERS else ():
                assert name in NO_STREAM or reader.beginning().startswith(BEGINS), reader.beginning()
            for _ in range(5):
                assert scene.http.get("/v1/health").status_code == 200
            assert scene.http.get(f"{scene.path}/stat", params={"path": "big"}).json()["size"] == LOG
            assert scene.resident() - before < bound
    assert "Traceback" not in scene.server.log.read_text()


# --- how many there may be


def test_a_sandbox_and_a_key_have_only_so_many_readers(serve: Callable[..., Server]) -> None:
    server = serve("--readers-per-sandbox=3", "--readers-per-key=4")
    with server.client() as http, ExitStack() as stack:
        path = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        scene = Scene(server, http, path.rpartition("/")[2], "", "", "", "", {})
        kinds = (get("{s.path}/events"), get("{s.path}/watch"), websocket("{s.path}/terminal"))
        readers = [stack.enter_context(opened(scene, kind)) for kind in kinds]
        assert all(reader.beginning().startswith(BEGINS) for reader in readers)

        refused = http.get(f"{path}/archive")
        assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "limit")
        assert "readers_per_sandbox" in refused.json()["error"]["hint"]
        assert int(refused.headers["retry-after"]) >= 1
        key = {"Authorization": f"Bearer {server.key}"}
        with pytest.raises(InvalidStatus) as problem:
            connect(f"{server.url.replace('http', 'ws')}{path}/live", additional_headers=key, proxy=None)
        assert problem.value.response.status_code == 429
        assert http.get(f"{path}/files").status_code == 200  # what is no stream is not bounded

        other = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        with http.stream("GET", f"{other}/events") as answer:
            assert answer.status_code == 200
            refused = http.get(f"{other}/watch")
            assert refused.status_code == 429
            assert "readers_per_key" in refused.json()["error"]["hint"]
            started = http.post("/v1/run", json={"code": "1"}, headers=SSE)
            assert started.status_code == 429
            assert http.post("/v1/run", json={"code": "1"}).status_code == 200
        readers[0].socket.close()
        eventually(lambda: http.get(f"{path}/archive").status_code == 200)
