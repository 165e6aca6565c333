"""Thousands of connections without a key, stuck at every stage of a request: callers with a key do not notice."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Server

STRANGERS = 2100
RUNS = 20
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
# What a stranger sends before it falls silent.
STAGES = {
    "nothing": b"",
    "empty lines": b"\r\n\r\n",
    "half a request line": b"POST /v1/ru",
    "half a head": b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "a head without the last line": b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n",
    "no key and half a body": b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    "a wrong key and half a body": b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    "half a body that nobody wants": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nx",
    "a body to come on demand": b"PUT /files HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    b"Content-Length: 100\r\n\r\n",
    "a request, then nothing": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade without the last line": UPGRADE,
    "an upgrade": UPGRADE + b"\r\n",
    "another upgrade": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "a port that does not exist": b"GET / HTTP/1.1\r\nHost: 8000-none.localhost\r\nContent-Length: 9\r\n\r\n",
}


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < STRANGERS + 500:
        pytest.skip(f"this test needs more than the {hard} descriptors that it may have")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("stages", [["nothing"], ["half a head"], list(STAGES)], ids=["silent", "half", "all"])
def test_strangers_do_not_keep_callers_with_a_key_out(serve: Callable[..., Server], stages: list[str]) -> None:
    server = serve()
    with ExitStack() as opened, server.client() as kept:
        assert kept.get("/v1/health").status_code == 200
        strangers = []
        for number, stage in zip(range(STRANGERS), cycle(stages), strict=False):
            strangers.append(opened.enter_context(_connection(server, STAGES[stage])))
            if number % (STRANGERS // RUNS) == 0:
                assert _runs(server)
        for stranger in strangers:  # those who are still there go on, a byte at a time
            try:
                stranger.send(b"x")
            except OSError:
                pass
        assert _runs(server)
        assert kept.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
        descriptors = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        assert descriptors < STRANGERS // 4
    assert "Traceback" not in server.log.read_text()


@pytest.mark.usefixtures("many_descriptors")
def test_connections_of_one_key_do_not_keep_another_out(serve: Callable[..., Server]) -> None:
    server = serve()
    with ExitStack() as opened, server.client() as http:
        key = http.post("/v1/keys", json={"owner": "greedy", "name": "greedy"}).json()["key"]
        head = f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        said = f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
        for number in range(STRANGERS):
            opened.enter_context(_connection(server, said))
            if number % (STRANGERS // RUNS) == 0:
                assert _runs(server)
        assert _runs(server)


def _connection(server: Server, said: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    connection.setblocking(False)
    connection.send(said)
    return connection


def _runs(server: Server) -> bool:
    """A run over a connection of its own."""
    with server.client() as http:
        return bool(http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n")
