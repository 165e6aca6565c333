"""Requests over a relay: those that must pass, and those that must not."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import pytest
from tests.egress.joined import pair

from cloche.egress.http_relay import relay_http
from cloche.egress.meter import Count, Meter
from cloche.egress.secrets import Exchange, Held
from cloche.egress.splicing import IDLE, QUOTA
from cloche.model.secret import new_placeholder

NAME, PORT = "api.example.org", 8080


class Relay:
    """A program's socket, the servers that were dialled, and the relay between them."""

    def __init__(self, meter: Meter, idle_s: float) -> None:
        self.program, self.accepted = pair()
        self.servers = asyncio.Queue[socket.socket]()
        self.ends = list[socket.socket]()
        self.count = Count()
        self.problem: Exception | None = None
        self.over = asyncio.create_task(
            relay_http(self.accepted, self.dial, NAME, PORT, meter, self.count, idle_s=idle_s)
        )

    async def dial(self) -> socket.socket:
        if self.problem:
            raise self.problem
        self.dialled, far = pair()
        self.ends.append(far)
        self.servers.put_nowait(far)
        return self.dialled

    async def ask(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.program, data)

    async def answer(self, size: int | bytes) -> bytes:
        return await exactly(self.program, size)


@asynccontextmanager
async def relay(meter: Meter | None = None, idle_s: float = 60) -> AsyncIterator[Relay]:
    found = Relay(meter or Meter(), idle_s)
    try:
        async with asyncio.timeout(10):
            yield found
    finally:
        found.over.cancel()
        await asyncio.wait([found.over])
        found.program.close()
        for end in found.ends:
            end.close()


async def exactly(sock: socket.socket, wanted: int | bytes) -> bytes:
    """So many bytes, or those up to and with an end; fewer if the connection ends."""
    found, loop = bytearray(), asyncio.get_running_loop()
    while len(found) < wanted if isinstance(wanted, int) else not found.endswith(wanted):
        if not (more := await loop.sock_recv(sock, 1)):
            break
        found += more
    return bytes(found)


async def say(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def rest(sock: socket.socket) -> bytes:
    return await exactly(sock, 1 << 30)


HEAD_END = b"\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: api.example.org\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: api.example.org\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_requests_on_one_connection_are_served_one_after_the_other() -> None:
    async with relay() as it:
        await it.ask(
            GET + GET.replace(b"/a", b"/b") + b"POST /c HTTP/1.1\r\nHost: API.Example.ORG.:8080\r\n"
            b"Content-Length: 3\r\n\r\nabc"
        )
        assert await it.answer(0) == b""
        server = await it.servers.get()
        for target in (b"GET /a", b"GET /b"):
            assert (await exactly(server, HEAD_END)).startswith(target)
            await say(server, OK)
            assert (await it.answer(HEAD_END + b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await exactly(server, b"abc")).startswith(b"POST /c")
        await say(server, OK.replace(b"200 OK", b"404 No"))
        assert (await it.answer(HEAD_END + b"ok")).startswith(b"HTTP/1.1 404 No\r\n")
        assert len(it.ends) == 1
        assert it.count.down == 3 * len(OK)
        for sock in (it.accepted, it.dialled):  # small parts do not wait for each other
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await it.ask(b"\r\n" + GET)  # some clients end a body like this
        assert await exactly(server, HEAD_END) == GET
        await say(server, OK)
        await it.answer(HEAD_END + b"ok")
        it.program.close()
        assert await it.over == ""
        assert await rest(server) == b""


@pytest.mark.parametrize(
    ("status", "request_bytes"),
    [
        (421, b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"),
        (421, b"GET / HTTP/1.1\r\nHost: api.example.org.evil.example\r\n\r\n"),
        (421, b"GET / HTTP/1.1\r\nHost: api.example.org:9\r\n\r\n"),
        (421, b"GET / HTTP/1.1\r\nHost: api.example.org@other.example\r\n\r\n"),
        (421, b"GET / HTTP/1.1\r\nHost: api.example.org, other.example\r\n\r\n"),
        (421, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        (421, b"GET http://other.example/ HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (421, b"GET http://api.example.org@other.example/ HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (421, b"GET http://api.example.org\\@other.example/ HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET https://api.example.org/ HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET a HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET * HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"CONNECT api.example.org:443 HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (400, b"GET / HTTP/2.0\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET / HTTP/0.9\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET /\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.0\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nhost: api.example.org\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\n other.example\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA: b\r\n\tc\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n Host: other.example\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost : api.example.org\r\n\r\n"),
        (400, b"GET / HTTP/1.1\nHost: api.example.org\n\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA: b\nHost: other.example\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA: b\rHost: other.example\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA: b\0\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA\x01: b\r\n\r\n"),
        (400, b"GET /\x01 HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, b"GET / a HTTP/1.1\r\nHost: api.example.org\r\n\r\n"),
        (400, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
        (400, POST + b"Content-Length: 4, 4\r\n\r\nabcd"),
        (400, POST + b"Content-Length: +4\r\n\r\nabcd"),
        (400, POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.0\r\nHost: api.example.org\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\n" + b"A: b\r\n" * 300 + b"\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: api.example.org\r\nA: " + b"b" * 70_000 + b"\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nA: " + b"b" * 70_000),
        (400, b"\x16\3\1\0\4\1\0\0\0\r\n\r\n"),
    ],
)
async def test_a_request_that_is_ambiguous_or_for_another_host_reaches_nobody(
    status: int, request_bytes: bytes
) -> None:
    async with relay() as it:
        asking = asyncio.create_task(it.ask(request_bytes))
        answer = await rest(it.program)
        head, _, body = answer.partition(HEAD_END)
        assert head.startswith(b"HTTP/1.1 %d " % status)
        error = json.loads(body)["error"]
        assert (error["kind"], error["host"], error["port"]) == ("network", NAME, PORT)
        assert error["message"]
        it.program.close()
        assert await it.over == error["message"]
        assert len(it.ends) == 0
        await asyncio.wait([asking])
        asking.exception()


async def test_a_switch_of_the_host_on_a_kept_connection_is_refused() -> None:
    async with relay() as it:
        await it.ask(GET + GET.replace(b"api", b"other"))
        server = await it.servers.get()
        first = await exactly(server, HEAD_END)
        await say(server, OK)
        answer = await rest(it.program)
        assert b"ok" + b"HTTP/1.1 421 " in answer
        it.program.close()
        await it.over
        assert first + await rest(server) == b"GET /a HTTP/1.1\r\nHost: api.example.org\r\n\r\n"


async def test_what_is_for_the_next_reader_alone_is_not_passed_on() -> None:
    async with relay() as it:
        await it.ask(
            b"GET http://API.example.org:8080?q=1 HTTP/1.1\r\nHost: api.example.org:8080\r\nConnection: x-hop, host\r\n"
            b"X-Hop: 1\r\nX-Other: 2\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic eA==\r\nTE: trailers, gzip\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n"
        )
        server = await it.servers.get()
        head = await exactly(server, HEAD_END)
        assert head == b"GET /?q=1 HTTP/1.1\r\nHost: api.example.org:8080\r\nX-Other: 2\r\nTE: trailers\r\n\r\n"
        await say(server, b"HTTP/1.1 200 OK\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nX-Other: 2\r\n\r\nwhole")
        server.close()
        answer = await it.answer(b"0\r\n\r\n")
        assert answer.lower() == (
            b"http/1.1 200 ok\r\nx-other: 2\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n"
        )
        await it.ask(GET)  # the program's connection goes on, with another one of the server
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        server.close()
        assert (await rest(it.program)).startswith(b"HTTP/1.1 502 ")


async def test_bodies_are_streamed_both_ways_with_their_trailers() -> None:
    async with relay() as it:
        await it.ask(
            b"PUT /a HTTP/1.1\r\nHost: api.example.org\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        )
        server = await it.servers.get()
        assert b"Expect: 100-continue" in await exactly(server, HEAD_END)
        await say(server, b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await it.answer(HEAD_END) == b"HTTP/1.1 100 \r\n\r\n"
        await it.ask(b"3;x=y\r\nabc\r\n")
        assert await exactly(server, b"abc\r\n") == b"3\r\nabc\r\n"
        await say(server, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
        assert b"text/event-stream" in await it.answer(HEAD_END)
        for event in (b"data: 1\n\n", b"data: 2\n\n"):  # each arrives before the next one is sent
            await say(server, b"%x\r\n%s\r\n" % (len(event), event))
            assert await it.answer(b"\n\n\r\n") == b"%x\r\n%s\r\n" % (len(event), event)
        await it.ask(b"0\r\nX-Sum: 5\r\nHost: other.example\r\n\r\n")
        assert await exactly(server, HEAD_END) == b"0\r\nX-Sum: 5\r\n\r\n"
        await say(server, b"0\r\nX-Sum: 6\r\n\r\n")
        assert await it.answer(HEAD_END) == b"0\r\nX-Sum: 6\r\n\r\n"
        await it.ask(GET)
        assert await exactly(server, HEAD_END) == GET
        server.close()


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_end_with_their_head(method: bytes, answer: bytes) -> None:
    async with relay() as it:
        await it.ask(2 * GET.replace(b"GET", method))
        server = await it.servers.get()
        for _ in range(2):
            await exactly(server, HEAD_END)
            await say(server, answer)
            assert await it.answer(HEAD_END) == answer
        assert len(it.ends) == 1
        server.close()


async def test_a_program_that_speaks_http_1_0_gets_a_body_that_the_end_delimits() -> None:
    async with relay() as it:
        await it.ask(b"GET /a HTTP/1.0\r\nHost: api.example.org\r\n\r\n")
        server = await it.servers.get()
        assert b"Connection: close" in await exactly(server, HEAD_END)
        await say(server, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")
        answer = await rest(it.program)
        assert answer.endswith(b"\r\n\r\nabc")
        assert b"chunked" not in answer
        server.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20,
        b"\0" * 100 + b"\r\n\r\n",
        b"",
    ],
)
async def test_a_server_that_does_not_speak_http_becomes_an_error(garbage: bytes) -> None:
    async with relay() as it:
        await it.ask(GET)
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        saying = asyncio.create_task(say(server, garbage))
        await asyncio.wait([saying])
        server.close()
        assert b"HTTP/1.1 502 " in await rest(it.program)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
)
async def test_half_an_answer_does_not_look_like_a_whole_one(framing: bytes) -> None:
    async with relay() as it:
        await it.ask(GET)
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        await say(server, b"HTTP/1.1 200 OK\r\n" + framing)
        assert b"half" in await it.answer(b"half")
        server.close()
        with pytest.raises(ConnectionResetError):
            await rest(it.program)
        assert await it.over == "reset"


async def test_a_server_that_closed_a_silent_connection_is_dialled_again() -> None:
    async with relay() as it:
        for _ in range(2):
            await it.ask(GET)
            server = await it.servers.get()
            await exactly(server, HEAD_END)
            await say(server, OK)
            await it.answer(HEAD_END + b"ok")
            server.close()
        assert len(it.ends) == 2
        it.problem = ConnectionRefusedError(111, "Connection refused")
        await it.ask(GET)
        assert b"Connection refused" in await rest(it.program)


@pytest.mark.parametrize("again", [GET.replace(b"GET", b"DELETE"), GET[:-2] + b"Content-Length: 3\r\n\r\nabc"])
async def test_only_what_may_be_repeated_survives_a_server_that_closes_just_now(again: bytes) -> None:
    async with relay() as it:
        await it.ask(GET)
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        await say(server, OK)
        await it.answer(HEAD_END + b"ok")
        await it.ask(GET)
        await exactly(server, HEAD_END)
        server.close()
        server = await it.servers.get()
        assert await exactly(server, HEAD_END) == GET
        await say(server, OK)
        assert (await it.answer(HEAD_END + b"ok")).endswith(b"ok")
        await it.ask(again)
        await exactly(server, again[-6:])
        server.close()
        with pytest.raises(ConnectionResetError):
            await rest(it.program)
        assert len(it.ends) == 2


async def test_a_websocket_passes_bytes_both_ways() -> None:
    async with relay() as it:
        await it.ask(
            GET[:-2] + b"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\nearly"
        )
        server = await it.servers.get()
        head = await exactly(server, HEAD_END)
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in head
        await say(server, b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        answer = await it.answer(b"first")
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst" in answer
        assert await exactly(server, 5) == b"early"
        down = it.count.down
        for sender, receiver in ((it.program, server), (server, it.program)):
            await say(sender, b"\x81\x04ping")
            assert await exactly(receiver, 6) == b"\x81\x04ping"
        assert it.count.down == down + 6
        server.close()
        assert await rest(it.program) == b""
        it.program.close()
        assert await it.over == ""


async def test_an_answer_before_the_end_of_the_request_passes() -> None:
    async with relay() as it:
        await it.ask(b"POST /a HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 1000000\r\n\r\nbegin")
        server = await it.servers.get()
        await exactly(server, b"begin")
        await say(server, b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        assert (await rest(it.program)).endswith(b"\r\n\r\nno")


async def test_the_quota_and_silence_end_a_connection() -> None:
    meter = Meter(None, len(GET) + 1000)
    async with relay(meter) as it:
        await it.ask(GET)
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        await say(server, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000))
        assert await it.over == QUOTA
        assert (it.count.up, it.count.down) == (len(GET), 1000)
        server.close()
    async with relay(meter) as it:
        await it.ask(GET)
        assert (await rest(it.program)).startswith(b"HTTP/1.1 403 ")
        assert it.count.up == 0
    async with relay(idle_s=0.2) as it:
        await it.ask(GET)
        server = await it.servers.get()
        assert await it.over == IDLE
        server.close()


async def test_many_answers_that_are_searched_keep_nobody_else_waiting() -> None:
    """Each is small on its way, and 64 MB for those who look into it; they belong to one sandbox."""
    packed = gzip.compress(bytes(64 << 20))
    turn, over, tasks, threads = asyncio.Lock(), list[socket.socket](), list[asyncio.Task[str]](), list[Thread]()

    async def dial() -> socket.socket:
        near, far = pair()
        over.append(far)
        far.setblocking(True)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        threads.append(Thread(target=lambda: far.sendall(head + packed)))
        threads[-1].start()
        return near

    def read(program: socket.socket) -> None:
        with suppress(OSError):
            while program.recv(1 << 20):
                pass

    secrets = [Held("TOKEN", "canary-0123/+", new_placeholder("TOKEN"))]
    for _ in range(5):
        program, accepted = pair()
        over.append(program)
        program.setblocking(True)
        program.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        threads.append(Thread(target=read, args=(program,)))
        threads[-1].start()
        exchange = Exchange(secrets, turn=turn)
        tasks.append(asyncio.create_task(relay_http(accepted, dial, NAME, PORT, Meter(), Count(), exchange=exchange)))
    loop = asyncio.get_running_loop()
    longest, last = 0.0, loop.time()
    for _ in range(200):
        await asyncio.sleep(0)
        longest, last = max(longest, loop.time() - last), loop.time()
    assert not all(task.done() for task in tasks)
    assert longest < 0.1, longest
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for sock in over:
        sock.close()
    for thread in threads:
        thread.join()


async def test_a_program_that_is_gone_frees_the_server() -> None:
    async with relay() as it:
        await it.ask(GET)
        server = await it.servers.get()
        await exactly(server, HEAD_END)
        it.program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        it.program.close()
        assert await it.over == ""
        with pytest.raises(ConnectionResetError):
            await rest(server)
