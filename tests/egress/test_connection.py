"""The first words of a connection, in pieces that arrive one after the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

import pytest
from tests.egress.joined import pair
from tests.egress.test_client_hello import hello_of

from cloche.egress import proxy
from cloche.egress.attempts import Attempt
from cloche.egress.connection import Connection
from cloche.egress.decision import NotAllowed, Policy
from cloche.egress.sandbox import SandboxEgress
from cloche.model.network import Network

HELLO = hello_of("api.example.org")


async def told(program: socket.socket, data: bytes, size: int, work: Awaitable[object]) -> object:
    """What comes of some work while a program sends data, each piece when the one before has been looked at."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    program.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for place in range(0, len(data), size):
        await loop.sock_sendall(program, data[place : place + size])
        await asyncio.sleep(0.001)
        if task.done():
            break
    async with asyncio.timeout(5):
        return await task


def connection(accepted: socket.socket) -> Connection:
    sandbox = SandboxEgress()
    sandbox.replace(Policy(Network(["api.example.org"])), {}, frozenset(), {})
    return Connection(sandbox, accepted)


@pytest.mark.parametrize("size", [40, 4])
async def test_a_handshake_in_too_many_pieces_is_refused(size: int) -> None:
    """Each piece is read with all that came before: hundreds of connections would keep those of others waiting."""
    program, accepted = pair()
    with program, accepted:
        work = told(program, HELLO, size, connection(accepted)._hello(5))
        if size == 40:
            assert await work
            return
        with pytest.raises(NotAllowed, match="pieces"):
            await work


@pytest.mark.parametrize(("size", "is_served"), [(400, True), (20, False)])
async def test_a_request_to_the_proxy_in_too_many_pieces_is_not_served(
    size: int, is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str] = []

    async def relay(_: Connection, host: str, *__: object, **___: object) -> None:
        served.append(host)

    monkeypatch.setattr(Connection, "relay", relay)
    monkeypatch.setattr(proxy, "_MAX_PIECES", 100)
    program, accepted = pair()
    with program, accepted:
        head = b"GET http://api.example.org/ HTTP/1.1\r\nA: " + b"a" * 4000 + b"\r\n\r\n"
        await told(program, head, size, proxy.serve(connection(accepted), accepted))
    assert served == ["api.example.org"] * is_served


async def test_a_first_line_in_pieces_never_arrives_as_a_request() -> None:
    program, accepted = pair()
    server, far = pair()
    with program, accepted, server, far:
        line = b"FIND /" + b"a" * 700 + b" HTTP/1.1\n"
        passed = connection(accepted)._pass_first_line(server, Attempt(1, "api.example.org", 8080))
        with pytest.raises(NotAllowed, match="pieces"):
            await told(program, line, 3, passed)
        found = far.recv(4096)
        assert len(found) > 600
        assert line.startswith(found)
        assert found != line
