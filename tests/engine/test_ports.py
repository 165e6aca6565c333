"""`box.ports`: servers inside a sandbox, reached from outside by way of its agent."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

import cloche

ECHO = """
import socket, threading
server = socket.create_server(("127.0.0.1", 7000), backlog=100)
def serve(connection):
    while data := connection.recv(1 << 16):
        connection.sendall(data)
    connection.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""


@contextlib.asynccontextmanager
async def served(box: cloche.AsyncSandbox, code: str, port: int = 7000) -> AsyncIterator[None]:
    """A Python program in the sandbox that listens on a port."""
    process = await box.start_program(code, timeout=60)
    await box.ports.wait(port)
    yield
    await process.kill()


async def received(connection: cloche.AsyncConnection) -> bytes:
    return b"".join([part async for part in connection])


def test_a_web_server_is_reached(box: cloche.Sandbox) -> None:
    box.files.write("data/page.txt", "hello from inside")
    server = box.commands.start(["python3", "-m", "http.server", "8000", "--directory", "data"])
    port = box.ports.wait(8000)
    assert (port.port, port.address, port.pid) == (8000, "0.0.0.0", server.pid)
    assert box.ports.list() == [port]
    for _ in range(3):
        with box.ports.connect(8000) as connection:
            connection.send("GET /page.txt HTTP/1.0\r\n\r\n")
            answer = b"".join(connection)
        assert answer.startswith(b"HTTP/1.0 200 OK")
        assert answer.endswith(b"\r\n\r\nhello from inside")


def test_where_nothing_listens_is_told_with_a_hint(box: cloche.Sandbox) -> None:
    assert box.ports.list() == []
    with pytest.raises(cloche.Gone, match="Nothing listens on port 8000") as caught:
        box.ports.connect(8000)
    assert "127.0.0.1" in caught.value.hint
    with pytest.raises(cloche.Gone, match="port 8000"):
        box.ports.wait(8000, 0.1)
    assert box.commands.run("echo alive").stdout == "alive\n"


def test_a_port_of_the_host_is_not_reached(box: cloche.Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, pytest.raises(cloche.Gone):
        box.ports.connect(ours.getsockname()[1])


NO_PORTS: list[Any] = [0, -1, 65536, "80", None, 80.0, True]


@pytest.mark.parametrize("port", NO_PORTS, ids=str)
def test_what_is_no_port_is_refused(box: cloche.Sandbox, port: Any) -> None:
    for call in (box.ports.connect, box.ports.wait):
        with pytest.raises(cloche.InvalidRun, match="port"):
            call(port)


@pytest.mark.parametrize("timeout", ["1", -1, 1e9, True], ids=str)
def test_what_is_no_time_to_wait_is_refused(box: cloche.Sandbox, timeout: Any) -> None:
    with pytest.raises(cloche.InvalidRun, match="timeout"):
        box.ports.wait(80, timeout)


async def test_ports_of_every_kind_are_listed(async_box: cloche.AsyncSandbox) -> None:
    code = (
        "import os, socket, time\n"
        "places = ('127.0.0.1', 7003), ('0.0.0.0', 7001), ('::1', 7002), ('::', 7000), ('127.0.0.2', 7004)\n"
        "families = {True: socket.AF_INET6, False: socket.AF_INET}\n"
        "servers = [socket.create_server(place, family=families[':' in place[0]]) for place in places]\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    process = await async_box.start_program(code, timeout=60)
    async for event in process:
        if event.kind == "stdout":
            break
    told = [(port.port, port.address, port.pid == process.pid) for port in await async_box.ports.list()]
    expected = [(7000, "::"), (7001, "0.0.0.0"), (7002, "::1"), (7003, "127.0.0.1"), (7004, "127.0.0.2")]
    assert told == [(port, address, True) for port, address in expected]
    for port, _ in expected[:-1]:
        assert (await async_box.ports.wait(port, 5)).port == port
        async with await async_box.ports.connect(port) as connection:
            await connection.send_eof()
    with pytest.raises(cloche.Gone):  # nobody would get through to it
        await async_box.ports.wait(7004, 0.1)
    await process.kill()


async def test_waiting_lasts_until_something_listens(async_box: cloche.AsyncSandbox) -> None:
    waiting = asyncio.create_task(async_box.ports.wait(7000, None))
    assert (await async_box.run("1")).ok
    assert not waiting.done()
    async with served(async_box, ECHO):
        assert (await waiting).address == "127.0.0.1"


async def test_who_waits_can_be_cancelled(async_box: cloche.AsyncSandbox) -> None:
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(async_box.ports.wait(7000, 100), 0.05)
    assert (await async_box.commands.run("echo alive")).stdout == "alive\n"


async def test_fifty_megabytes_go_there_and_back(async_box: cloche.AsyncSandbox) -> None:
    data = os.urandom(1 << 20) * 50
    async with served(async_box, ECHO), await async_box.ports.connect(7000) as connection:

        async def send() -> None:
            await connection.send(data)
            await connection.send_eof()

        sending = asyncio.create_task(send())
        digest = hashlib.sha256()
        async for part in connection:
            digest.update(part)
        await sending
        assert await connection.receive() == b""
    assert digest.digest() == hashlib.sha256(data).digest()


async def test_a_slow_reader_slows_the_writer(async_box: cloche.AsyncSandbox) -> None:
    flood = """
import socket
server = socket.create_server(("127.0.0.1", 7000))
connection = server.accept()[0]
connection.settimeout(1)
sent = 0
try:
    while sent < 200 << 20:
        sent += connection.send(bytes(1 << 16))
except TimeoutError:
    print("held up at", sent >> 20)
connection.settimeout(None)
connection.sendall(b"end")
connection.close()
"""
    process = await async_box.start_program(flood, timeout=60)
    await async_box.ports.wait(7000)
    async with await async_box.ports.connect(7000) as connection:
        first = await connection.receive()
        held_up = None
        async for event in process:
            if event.kind == "stdout":
                held_up = int(event.text.split()[-1])
                break
        assert held_up is not None
        assert held_up < 20  # megabytes, in sockets and under way; nobody has read more than one piece
        rest = await received(connection)
    assert (first + rest).endswith(b"\0end")
    assert len(first + rest) >= held_up << 20


async def test_a_server_that_does_not_read_holds_up_the_sender_alone(async_box: cloche.AsyncSandbox) -> None:
    deaf = (
        "import socket, sys\nserver = socket.create_server(('127.0.0.1', 7000))\nconnection = server.accept()[0]\n"
        "sys.stdin.readline()\nsize = 0\nwhile data := connection.recv(1 << 20): size += len(data)\n"
        "connection.sendall(str(size).encode())"
    )
    process = await async_box.start_program(deaf, timeout=60)
    await async_box.ports.wait(7000)
    async with await async_box.ports.connect(7000) as connection:
        sending = asyncio.create_task(connection.send(bytes(30 << 20)))
        done, _ = await asyncio.wait([sending], timeout=0.5)
        assert not done
        assert (await async_box.run("1 + 1")).text == "2"
        await process.write("go\n")
        await sending
        await connection.send_eof()
        assert await received(connection) == str(30 << 20).encode()


async def test_fifty_connections_at_once(async_box: cloche.AsyncSandbox) -> None:
    async def talk(number: int) -> bytes:
        async with await async_box.ports.connect(7000) as connection:
            await connection.send(f"{number}-" * 10_000)
            await connection.send_eof()
            return await received(connection)

    async with served(async_box, ECHO):
        answers = await asyncio.gather(*(talk(number) for number in range(50)))
    assert answers == [f"{number}-".encode() * 10_000 for number in range(50)]


@pytest.mark.embedded  # a server has a bound of its own
async def test_there_is_a_bound_and_closing_makes_room(async_box: cloche.AsyncSandbox) -> None:
    listening = "import socket, time\nserver = socket.create_server(('127.0.0.1', 7000), backlog=400)\ntime.sleep(60)"
    async with served(async_box, listening):
        connections = [await async_box.ports.connect(7000) for _ in range(256)]
        with pytest.raises(cloche.Refused, match="too many"):
            await async_box.ports.connect(7000)
        for connection in connections:
            await connection.close()
            await connection.close()
        async with await async_box.ports.connect(7000):
            pass
    assert (await async_box.commands.run("echo alive")).stdout == "alive\n"


async def test_forgotten_connections_are_closed(async_box: cloche.AsyncSandbox) -> None:
    counting = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 7000))\n"
        "for n in range(2):\n    c = server.accept()[0]\n    print('end', c.recv(10), flush=True)"
    )
    process = await async_box.start_program(counting, timeout=30)
    await async_box.ports.wait(7000)
    for _ in range(2):
        connection = await async_box.ports.connect(7000)
        del connection
    assert (await process.wait()).stdout == "end b''\nend b''\n"


async def test_either_side_may_end_first(async_box: cloche.AsyncSandbox) -> None:
    halves = """
import socket
server = socket.create_server(("127.0.0.1", 7000))
first = server.accept()[0]
first.sendall(b"all of mine")
first.shutdown(socket.SHUT_WR)
heard = b""
while data := first.recv(100): heard += data
first.close()
second = server.accept()[0]
while second.recv(100): pass
second.sendall(b"heard " + heard)
second.close()
"""
    async with served(async_box, halves):
        async with await async_box.ports.connect(7000) as connection:
            assert await received(connection) == b"all of mine"
            await connection.send("still ")
            await connection.send("here")
            await connection.send_eof()
            with pytest.raises(cloche.Gone):
                await connection.send("more")
            assert await connection.receive() == b""
        async with await async_box.ports.connect(7000) as connection:
            await connection.send_eof()
            assert await received(connection) == b"heard still here"


@pytest.mark.embedded  # a tunnel tells its end, not how it came
async def test_a_connection_that_is_reset_is_told(async_box: cloche.AsyncSandbox) -> None:
    rude = (
        "import socket, struct\nserver = socket.create_server(('127.0.0.1', 7000))\nc = server.accept()[0]\nc.recv(1)\n"
        "c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\nc.close()\nserver.accept()"
    )
    async with served(async_box, rude), await async_box.ports.connect(7000) as connection:
        await connection.send("x")
        with pytest.raises(cloche.Gone, match="closed the connection"):
            await connection.receive()
        with pytest.raises(cloche.Gone, match="closed the connection"):
            await connection.send("y")
        assert await connection.receive() == b""


async def test_a_receiver_that_is_cancelled_loses_nothing(async_box: cloche.AsyncSandbox) -> None:
    data = os.urandom(10 << 20)
    async with served(async_box, ECHO), await async_box.ports.connect(7000) as connection:

        async def send() -> None:
            await connection.send(data)
            await connection.send_eof()

        sending = asyncio.create_task(send())
        heard = bytearray()
        while not sending.done() or len(heard) < len(data):
            with contextlib.suppress(TimeoutError):
                heard += await asyncio.wait_for(connection.receive(), 0.0003)
        await sending
    assert heard == data


async def test_closing_wakes_those_who_wait(async_box: cloche.AsyncSandbox) -> None:
    listening = "import socket, time\nserver = socket.create_server(('127.0.0.1', 7000))\ntime.sleep(60)"
    async with served(async_box, listening):
        connection = await async_box.ports.connect(7000)
        receiving = asyncio.create_task(connection.receive())
        sending = asyncio.create_task(connection.send(bytes(50 << 20)))
        done, _ = await asyncio.wait([receiving, sending], timeout=0.3)
        assert not done
        await connection.close()
        assert await asyncio.wait_for(receiving, 10) == b""
        with pytest.raises(cloche.Gone):
            await asyncio.wait_for(sending, 10)
        assert await connection.receive() == b""


async def test_connections_end_with_their_sandbox(async_box: cloche.AsyncSandbox) -> None:
    await async_box.start_program(ECHO, timeout=60)
    await async_box.ports.wait(7000)
    connection = await async_box.ports.connect(7000)
    receiving = asyncio.create_task(connection.receive())
    await asyncio.sleep(0)
    await async_box.close()
    with pytest.raises(cloche.Gone):
        await receiving
    with pytest.raises(cloche.Gone):
        await connection.send("x")
    await connection.close()


def test_connections_that_come_and_go_leave_nothing_open(box: cloche.Sandbox) -> None:
    box.start_program(ECHO, timeout=60)
    box.ports.wait(7000)
    for number in range(1200):  # more than it could have open
        with box.ports.connect(7000) as connection:
            connection.send(b"x")
            if number % 2:
                assert connection.receive() == b"x"
    assert box.commands.run("echo alive").stdout == "alive\n"
