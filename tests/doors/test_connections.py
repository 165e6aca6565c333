"""Slow, half-open and greedy clients: each is answered or dropped in time, and the server goes on."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from json import loads
from time import monotonic
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.asyncio.client import connect as connect_websocket

from cloche.doors import connections, messages
from cloche.doors.visitors import Visitors, show_key

SHORT_S = 0.3
KEEP_ALIVE_S = 3

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class App:
    """Takes a request's body and says how long it was; `/known` had a key; `/early` does not wait for the body."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.headers: list[tuple[bytes, bytes]] = []
        self.go = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._repeat(receive, send)
            return
        if scope["path"] == "/known":
            scope["state"]["caller"] = "somebody"
            show_key(scope, "somebody")
        size, more = 0, scope["path"] != "/early"
        if scope["path"] == "/busy":
            await self.go.wait()
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            size += len(message["body"])
            more = message["more_body"]
        self.headers = list(scope["headers"])
        body = bytes(64 << 20) if scope["path"] == "/much" else str(size).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for start in range(0, len(body), 1 << 20):
            await send({"type": "http.response.body", "body": body[start : start + (1 << 20)], "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        if scope["path"] == "/much":
            self.left.set()

    async def _repeat(self, receive: Any, send: Any) -> None:
        """Say the length of every message, once it may go on."""
        await receive()
        await send({"type": "websocket.accept"})
        await self.go.wait()
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": str(len(message["text"]))})


@asynccontextmanager
async def serving(app: Any, at_most: int = 1000, visitors: Visitors | None = None) -> AsyncIterator[Callable[[], Any]]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=partial(connections.Connection, visitors=visitors or Visitors(at_most)),  # type: ignore[arg-type]
        ws=messages.Messages,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    port = listening.getsockname()[1]
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in opened:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in opened), return_exceptions=True)
        await server.shutdown([listening])
        listening.close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_S", "BODY_S", "LINGER_S", "STRANGER_S"):
        monkeypatch.setattr(connections, name, SHORT_S)
    monkeypatch.setattr(connections, "BODY_RATE", 1 / SHORT_S)  # a byte in that time


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status of an answer, and its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    size = next(int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
    return int(head.split()[1]), await asyncio.wait_for(reader.readexactly(size), 5)


async def until_closed(reader: asyncio.StreamReader, within_s: float = 5) -> float:
    """How long it takes until the server closes."""
    begin = monotonic()
    async with asyncio.timeout(within_s):
        try:
            while await reader.read(1 << 20):
                pass
        except ConnectionError:
            pass
    return monotonic() - begin


async def test_an_ordinary_request_is_answered_and_the_connection_kept() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        for _ in range(3):
            writer.write(b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            assert await answer(reader) == (200, b"5")


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n", b"\r\n\r\n\r\n"])
async def test_a_head_that_does_not_come_is_not_waited_for(said: bytes) -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(said)
        begin = monotonic()
        status, body = await answer(reader)
        assert status == 408
        assert loads(body)["error"]["kind"] == "invalid"
        assert await until_closed(reader) < 1
        assert SHORT_S * 0.9 < monotonic() - begin < SHORT_S + 2


async def test_a_head_that_drips_is_not_waited_for() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()

        async def drip() -> None:
            for byte in b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * 1000:
                writer.write(bytes((byte,)))
                await asyncio.sleep(SHORT_S / 10)

        dripping = asyncio.create_task(drip())
        begin = monotonic()
        assert (await answer(reader))[0] == 408
        assert monotonic() - begin < SHORT_S + 2
        dripping.cancel()


async def test_empty_lines_between_requests_do_not_keep_a_connection() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(reader) == (200, b"0")
        writer.write(b"\r\n")
        assert await until_closed(reader) < KEEP_ALIVE_S - 1


async def test_who_has_shown_no_key_is_not_kept_for_long() -> None:
    async with serving(App()) as connect:
        strange, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(strange) == (200, b"0")
        known, writer = await connect()
        writer.write(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(known) == (200, b"0")
        assert await until_closed(strange) < 1.5
        assert 1 < await until_closed(known) < KEEP_ALIVE_S + 2


async def test_a_body_that_stalls_is_not_waited_for() -> None:
    app = App()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.write(b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        assert (await answer(reader))[0] == 408
        await asyncio.wait_for(app.left.wait(), 5)


async def test_a_body_that_comes_slowly_is_taken() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(SHORT_S / 2)
            writer.write(b"x")
        assert await answer(reader) == (200, b"8")


async def test_a_body_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_RATE", 100 / SHORT_S)
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n")

        async def drip() -> None:
            for _ in range(1000):
                writer.write(b"x")
                await asyncio.sleep(SHORT_S / 10)

        dripping = asyncio.create_task(drip())
        assert (await answer(reader))[0] == 408
        dripping.cancel()


async def test_a_client_that_waits_for_us_is_not_late() -> None:
    app = App()
    async with serving(app) as connect:
        size = 1 << 20  # more than is taken before somebody asks for it
        for expect in (b"", b"Expect: 100-continue\r\n"):
            app.go.clear()
            reader, writer = await connect()
            writer.write(b"POST /busy HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (expect, size))
            if not expect:
                writer.write(bytes(size))
            await asyncio.sleep(SHORT_S * 3)
            app.go.set()
            if expect:
                assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 100")
                writer.write(bytes(size))
            assert await answer(reader) == (200, str(size).encode())


async def test_the_rest_of_a_body_that_was_answered_already_is_not_taken_for_ever() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n")
        assert await answer(reader) == (200, b"0")
        begin = monotonic()
        assert await _send_all(writer, bytes(256 << 20)) < 256 << 20
        assert monotonic() - begin < SHORT_S + 2


async def test_a_request_behind_one_that_takes_long_is_not_late() -> None:
    app = App()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.write(b"GET /busy HTTP/1.1\r\nHost: x\r\n\r\nGET /known HT")
        await asyncio.sleep(SHORT_S * 3)
        app.go.set()
        assert await answer(reader) == (200, b"0")
        writer.write(b"TP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(reader) == (200, b"0")


async def test_a_client_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_S", SHORT_S)
    app = App()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.transport.pause_reading()
        writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(app.left.wait(), 5)
        writer.transport.resume_reading()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(64 << 20)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * (10 << 20),
        b"GET /" + b"x" * (10 << 20),
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(100_000)),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (connections.MAX_HEADERS + 1) + b"\r\n",
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * (connections.MAX_HEAD + 1) + b"\r\n\r\n",
        b"\r\n" * (1 << 20),
    ],
    ids=["one header", "address", "many headers", "a few too many", "a little too long", "nothing but lines"],
)
async def test_a_head_that_is_too_large_is_refused(head: bytes) -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        sending = asyncio.create_task(_send_all(writer, head))
        try:
            status, _ = await answer(reader)
        except ConnectionError:  # it was closed while we were still sending
            assert len(head) > 1 << 20
        else:
            assert status == 431
        sent = await asyncio.wait_for(sending, 5)
        assert sent == len(head) < 2 << 20 or sent < 8 << 20  # not all of a large one was taken


async def _send_all(writer: asyncio.StreamWriter, data: bytes) -> int:
    """How much could be sent."""
    try:
        for start in range(0, len(data), 1 << 16):
            writer.write(data[start : start + (1 << 16)])
            await writer.drain()
            await asyncio.sleep(0.001)
    except ConnectionError:
        return start
    return len(data)


async def test_as_large_a_head_as_is_allowed_is_taken() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        long = b"x" * (connections.MAX_HEAD - 1000)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n" % long)
        assert await answer(reader) == (200, b"0")


async def test_headers_after_the_body_are_not_the_requests() -> None:
    app = App()
    async with serving(app) as connect:
        reader, writer = await connect()
        request = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
        writer.write(request + b"Authorization: Bearer stolen\r\nHost: localhost\r\n\r\n")
        assert await answer(reader) == (200, b"5")
        assert app.headers == [(b"transfer-encoding", b"chunked")]


async def test_a_client_that_sends_on_still_gets_the_answer() -> None:
    async with serving(App()) as connect:
        _, writer = await connect()
        # A plain socket, which leaves the answer in the system's hands meanwhile: a reset would destroy it there.
        with socket.create_connection(writer.get_extra_info("peername")) as client:
            client.sendall(b"this is not HTTP\r\n\r\n")
            assert (await asyncio.to_thread(select.select, [client], [], [], 5))[0]
            for _ in range(10):
                client.sendall(b"x" * 1000)
                await asyncio.sleep(0.001)
            assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
            assert client.recv(1000) == b""


async def test_a_client_that_is_refused_cannot_send_on_for_ever() -> None:
    async with serving(App()) as connect:
        _, writer = await connect()
        writer.write(b"this is not HTTP\r\n\r\n")
        assert await asyncio.wait_for(_send_all(writer, bytes(8 << 20)), 5) < 8 << 20


async def test_endless_headers_after_the_body_are_refused() -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        writer.write(b"X-More: y\r\n" * 1000)
        assert (await answer(reader))[0] == 431


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT evil:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://evil/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x@evil/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://evil?/x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET http://evil/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=[
        "tls",
        "no version",
        "odd version",
        "two lengths",
        "negative",
        "length and chunks",
        "chunk",
        "bytes",
        "connect",
        "no path",
        "other host",
        "other host after a user",
        "other host without a path",
        "two hosts",
        "WebSocket of another host",
    ],
)
async def test_what_is_not_http_gets_400(said: bytes) -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(said)
        status, body = await answer(reader)
        assert status == 400
        assert loads(body)["error"]["kind"] == "invalid"
        assert await until_closed(reader) < 2


@pytest.mark.parametrize(
    "said",
    [
        b"GET http://X:80/ HTTP/1.1\r\nHost: x:80\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n",
    ],
    ids=["the whole address", "small chunks"],
)
async def test_an_unusual_form_of_a_request_is_taken(said: bytes) -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(said)
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("piece", [b"a" * 8192, b"a" * 99 + b"\r\nx\r\n1;"], ids=["one", "many"])
async def test_endless_extensions_of_chunks_are_not_read(piece: bytes) -> None:
    async with serving(App()) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        sent = 0
        while not (reader.at_eof() or reader.exception() or writer.is_closing() or sent > 2 << 20):
            writer.write(piece * (8192 // len(piece)))
            sent += 8192
            await asyncio.sleep(0.001)
        assert sent < 2 << 20


async def test_who_is_leaving_without_having_asked_for_anything_has_no_key() -> None:
    config = uvicorn.Config(App(), http=connections.Connection, ws=messages.Messages, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    protocol = connections.Connection(config=config, server_state=state, app_state={}, visitors=Visitors())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, sock=ours)
        transport.close()
        protocol.hang_up("key_1")


async def test_the_oldest_stranger_makes_way_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 30.0)
    async with serving(App(), at_most=24) as connect:  # three of them strangers
        known = await connect()
        known[1].write(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(known[0]) == (200, b"0")
        silent = [await connect() for _ in range(4)]
        head = await asyncio.wait_for(silent[0][0].readuntil(b"\r\n\r\n"), 5)
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after:" in head.lower()
        for reader, writer in (*silent[1:], known):
            writer.write(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await answer(reader) == (200, b"0")


async def test_a_stranger_whose_request_is_under_way_makes_way_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_S", 30.0)
    app = App()
    async with serving(app, at_most=8) as connect:  # one of them a stranger
        _, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        websocket, writer = await connect()
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await asyncio.wait_for(app.left.wait(), 5)
        assert b" 101 " in await asyncio.wait_for(websocket.readline(), 5)
        reader, writer = await connect()
        await until_closed(websocket)
        writer.write(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer(reader) == (200, b"0")


async def test_a_place_is_given_back_however_a_connection_ends() -> None:
    visitors = Visitors(1000)
    async with serving(App(), visitors=visitors) as connect:
        for said in (b"", b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n", b"nonsense\r\n\r\n"):
            _, writer = await connect()
            writer.write(said)
        _, writer = await connect()
        async with connect_websocket(f"ws://127.0.0.1:{writer.get_extra_info('peername')[1]}/"):
            assert sum(visitors.counts()) > 2
    assert visitors.counts() == (0, 0)


async def test_messages_that_nobody_takes_are_not_read() -> None:
    app, size, count, sent = App(), 1 << 20, 64, 0

    async def send_all() -> None:
        nonlocal sent
        for sent in range(count):
            await client.send("x" * (size + sent))

    async with serving(app) as connect:
        _, writer = await connect()
        address = "ws://{}:{}/".format(*writer.get_extra_info("peername"))
        async with connect_websocket(address, proxy=None, compression=None, write_limit=size) as client:
            sending = asyncio.create_task(send_all())
            assert not (await asyncio.wait((sending,), timeout=SHORT_S))[0]
            assert sent < count // 2  # on the way, and one that waits to be taken
            app.go.set()
            for number in range(count):
                assert int(await asyncio.wait_for(client.recv(), 5)) == size + number
            await sending
