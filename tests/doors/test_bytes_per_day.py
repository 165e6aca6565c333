"""A key gets no more bytes than its day has, in the middle of every stream of every door.

The cases are those of test_readers.py, so a new stream needs a case here as well.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.test_readers import FLOOD, NO_STREAM, OPENERS, Request, Scene, e2b, envd_start, opened, post, websocket
from tests.waiting import eventually

LIMIT = 128 << 10  # bytes a day
FEW = 40  # bytes a day, for streams of small events
SLACK = 400 << 10  # bytes by which a stream may exceed the limit: a piece for each part of the way, and the framing
IN_A_RUN = 16 << 20  # a run is stopped at the limit, and what was on its way arrives
LONG = {"code": "while True: print('x' * 65_000)", "timeout": 60}
# These send nothing by themselves: a case of its own fills them.
CHANGES = "while :; do touch a; mv a b; done"
_BEGUN = {
    ("HTTP", "POST", "/v1/run"): post("/v1/run", LONG),
    ("HTTP", "POST", "/v1/sandboxes/{sandbox_id}/run"): post("{s.path}/run", LONG),
    ("HTTP", "WebSocket", "/"): websocket("/", {"type": "execute", "stream": True, **LONG}),
    ("E2B, port 49999", "POST", "/execute"): e2b("POST", "/execute", 49999, {"code": LONG["code"]}),
    ("HTTP", "WebSocket", "/v1/sandboxes/{sandbox_id}/tunnel"): lambda scene: websocket(
        "{s.path}/tunnel?port=8000", b"hello"
    )(scene).replace(b"\x81\xfe", b"\x82\xfe"),
    ("E2B, port 49983", "POST", "/process.Process/Connect"): envd_start(
        {"process": {"tag": "yes"}}, "process.Process/Connect"
    ),
    ("E2B, port 49983", "any", "/files"): e2b("GET", "/files?path=/home/user/big", 49983),
    ("E2B, port 49983", "POST", "/process.Process/Start"): envd_start({"process": {"cmd": "yes"}}),
}
QUIET = {name for name in OPENERS if name[2].endswith(("/usage", "/watch", "/WatchDir", "{sandbox_id}/events"))}
RUNS = {name for name in OPENERS if name[2] in ("/", "/v1/run", "/execute") or name[2].endswith("/run")}
# The result of these comes at the end, in one piece, and each run in them is bounded by its own limits.
AT_THE_END = {name for name in OPENERS if name[2].endswith(("/best_of", "/attempts"))}
END = re.compile(rb'"message":"The work was stopped|bytes a day')  # the last message; a WebSocket may stay open
CASES = [name for name in OPENERS if name not in NO_STREAM | AT_THE_END]


@pytest.fixture(scope="module")
def flood(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A server with a sandbox in which there is much to read; `http` has a key without limits."""
    server = Server(tmp_path_factory.mktemp("bytes"), "--readers-per-key=500", env={"CLOCHE_WARM": "0"})
    with ExitStack() as stack:
        stack.callback(server.stop)
        http = stack.enter_context(server.client())
        http = stack.enter_context(server.client(key=new_key(http, LIMIT * 1000)))
        path = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={'processes': 500}).json()['id']}"
        log = f"head -c {48 * LIMIT} /dev/zero | tr '\\0' x | fold; sleep 600"
        http.post("/v1/environments", json={"name": "flood", "setup": log}).raise_for_status()
        big = f"open('big', 'wb').write(__import__('os').urandom({48 * LIMIT}))"
        run = http.post(f"{path}/run", json={"code": f"{big}\nfor _ in range(6): print('x' * 1_000_000)"}).json()
        prints = f"head -c {48 * LIMIT} /dev/zero | tr '\\0' x; sleep 600"
        command = http.post(f"{path}/commands", json={"command": prints}).json()["id"]
        terminal = http.post(f"{path}/commands", json={"command": prints, "pty": True}).json()["id"]
        http.post(f"{path}/commands", json={"command": CHANGES}).raise_for_status()
        http.post(f"{path}/commands", json={"code": FLOOD, "language": "python"}).raise_for_status()
        eventually(lambda: http.get(f"{path}/ports/8000").json()["listening"])
        yield Scene(server, http, path.rpartition("/")[2], command, terminal, run["run_id"], "", {})


def new_key(http: httpx2.Client, limit: int) -> str:
    made = http.post("/v1/keys", json={"owner": "flood", "name": "test", "limits": {"bytes_per_day": limit}})
    assert made.status_code == 201, made.text
    return str(made.json()["key"])


class WithKey:
    """The server, as the requests of test_readers.py see it."""

    def __init__(self, server: Server, key: str) -> None:
        self.port, self.key = server.port, key


def payer(scene: Scene, name: tuple[str, str, str], stack: ExitStack, limit: int) -> tuple[Scene, httpx2.Client]:
    """The scene as a key with a limit sees it; visitors of ports and E2B's clients rely on the key that let them in."""
    with scene.server.client() as admin:
        key = new_key(admin, limit)
    client = stack.enter_context(scene.server.client(key=key))
    token, headers = "", {}
    if name in RUNS:
        scene = replace(scene, sandbox=client.post("/v1/sandboxes", json={}).json()["id"])
        stack.callback(client.delete, scene.path)
    if name[0] == "ports":
        token = client.post(f"{scene.path}/ports/8000", json={}).json()["url"].partition("://")[2].partition(".")[0]
    if name[0].startswith("E2B"):
        made = client.post("/sandboxes", json={"templateID": "base"}).json()
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
        stack.callback(client.delete, f"/sandboxes/{made['sandboxID']}")
    limited: Any = WithKey(scene.server, key)
    found = replace(scene, server=limited, token=token, e2b=headers)
    if headers:
        fill = f"head -c {48 * LIMIT} /dev/urandom > big; touch filled; {CHANGES}"
        programs = [["sh", "-c", fill], ["python3", "-c", FLOOD], ["sh", "-c", "sleep 2; yes"]]
        ready = [e2b("GET", "/files?path=/home/user/filled", 49983), e2b("HEAD", "/", 8000)]
        for words in programs[:1] if name in QUIET else programs:
            process = {"process": {"cmd": words[0], "args": words[1:]}, "tag": words[-1][-3:]}
            started = stack.enter_context(opened(found, envd_start(process)))
            assert started.beginning().startswith(b"HTTP/1.1 200 ")
        for request in ready[:1] if name in QUIET else ready:
            eventually(partial(_is_ok, found, request))
    return found, client


def _is_ok(scene: Scene, request: Request) -> bool:
    with opened(scene, request) as client:
        return client.beginning().startswith(b"HTTP/1.1 200 ")


def read_all(scene: Scene, request: Request, most: int, happen: Callable[[], object]) -> bytes:
    """Everything that the server sends until it ends the stream; `happen` makes it say something."""
    found = bytearray()
    with opened(scene, request) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        client.socket.settimeout(1)
        for _ in range(5):
            try:
                while len(found) <= most and not found.endswith(b"0\r\n\r\n"):
                    piece = client.socket.recv(1 << 20)
                    found += piece
                    if not piece or END.search(piece):
                        return bytes(found)
                return bytes(found)
            except ConnectionError:
                return bytes(found)
            except TimeoutError:
                happen()
    pytest.fail(f"the stream goes on after {len(found):,} bytes: {bytes(found[-300:])!r}")


@pytest.mark.parametrize("name", CASES, ids=" ".join)
def test_a_stream_ends_with_the_bytes_of_the_day(flood: Scene, name: tuple[str, str, str]) -> None:
    limit = FEW if name in QUIET else LIMIT
    limit += 4000 if name[2].endswith("/WatchDir") else 0  # E2B's clients get more before
    most = limit + (IN_A_RUN if name in RUNS else SLACK)
    request = _BEGUN.get(name) or OPENERS[name][0]
    with ExitStack() as stack:
        scene, client = payer(flood, name, stack, limit)
        found = read_all(scene, request, most, lambda: flood.http.post(f"{flood.path}/run", json={"code": "print(1)"}))
        assert len(found) <= most
        if (name in RUNS and name[2] != "/execute") or b"connect+json" in found or name[1] == "WebSocket":
            assert b"bytes a day" in found or b"bytes of today" in found, found[-500:]
        assert found.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 101 ")), found[:500]
        again = client.post("/v1/run", json={"code": "1"})
        assert (again.status_code, "bytes a day" in again.text) == (429, True), again.text
    assert "Traceback" not in flood.server.log.read_text()
