"""Passes HTTP requests on from a program to a server, each of them checked, and the answers back.

Both conversations are read and written anew with h11, so neither side sees a byte that Cloche did not understand.
Bodies are passed on piece by piece as they come.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Protocol

import h11

from cloche.egress.http_heads import MAX_HEAD, Asked, Headers, Refusal, check_lines, end_of_head, end_to_end, trailers
from cloche.egress.meter import Count, Meter
from cloche.egress.refusals import http_refusal
from cloche.egress.splicing import BROKEN, IDLE, QUOTA
from cloche.egress.streams import Stream, told

HEAD_S = 30.0  # from the first byte of a request's head to its last
IDLE_S = 900.0
_MOST_INTERIM = 16  # answers such as 100 and 103, before the one that counts
_MOST_AHEAD = 64 << 10  # bytes that a client may send before its last request is answered
_GIVEN_UP_S = 30.0  # without an answer, for a client that has said that it sends nothing more

_OF_THE_POLICY = (403, 421)  # statuses of refusals: the host is not allowed, or is another than the connection's

_AT_REST = {h11.IDLE, h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.SWITCHED_PROTOCOL}

Dial = Callable[[], Awaitable["socket.socket | Stream"]]


class Exchange(Protocol):
    """Changes what passes: it puts values into requests, and takes them out of answers."""

    turn: asyncio.Lock
    """Held for each change: it takes a while, and those of one sandbox may be many."""

    def request(self, headers: Headers) -> Headers:
        """The headers to send instead."""

    def response_head(self, headers: Headers) -> Headers:
        """The headers to pass on instead.  A body begins; Refusal if it cannot be read."""

    def response_headers(self, headers: Headers) -> Headers:
        """The same for headers that are not those of a body: of an answer before the last one, and trailers."""

    def response_body(self, chunk: bytes) -> Iterable[bytes]:
        """What to pass on of a body, in pieces of a bounded size."""

    def response_end(self) -> Iterable[bytes]:
        """What is left at the end of a body."""

    def raw(self, chunk: bytes) -> bytes:
        """What to pass on of a WebSocket's bytes, as many; with nothing given, what was kept back."""


class _Gone(Exception):
    """The connection cannot go on: one side broke off, or a bound was reached."""


async def relay_http(
    client: socket.socket | Stream,
    dial: Dial,
    name: str,
    port: int,
    meter: Meter,
    count: Count,
    *,
    exchange: Exchange | None = None,
    scheme: str = "http",
    idle_s: float = IDLE_S,
    is_proxied: bool = False,
) -> str:
    """Serve the requests on a connection that is for `name`, until one side ends it; close everything.

    `client` is an accepted socket, from which nothing has been read (or a Stream, for TLS).  `dial` connects to the
    server: when the first request has passed its checks, and again when the server has closed the connection between
    two requests; it may raise Refusal, and an OSError becomes a 502.  `count` and `meter` see the bytes of the
    server's side.  With `is_proxied`, the connection ends after one request.

    Return "" or the reason that ended it: "quota", "idle", "reset", or a sentence.
    """
    try:
        stream = client if isinstance(client, Stream) else await Stream.of(client)
    except OSError:
        return ""  # it is gone already
    relay = _Relay(stream, dial, name, port, meter, count, exchange, scheme, idle_s, is_proxied)
    try:
        return await relay.run()
    finally:
        relay.close()


class _Relay:
    def __init__(
        self,
        client: Stream,
        dial: Dial,
        name: str,
        port: int,
        meter: Meter,
        count: Count,
        exchange: Exchange | None,
        scheme: str,
        idle_s: float,
        is_proxied: bool,
    ) -> None:
        self._client, self._dial = client, dial
        self._name, self._port, self._scheme = name, port, scheme
        self._meter, self._count, self._exchange = meter, count, exchange
        self._idle_s, self._is_proxied = idle_s, is_proxied
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._server: Stream | None = None
        self._unread = b""  # from the client, after the request that is being served
        self._unmetered = memoryview(b"")  # from the server
        self._begin()

    def _begin(self) -> None:
        """Forget the last request."""
        self._inner = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)  # with the client
        self._outer = _client()  # with the server
        self._is_asked = self._is_answering = self._is_upgraded = self._heard_server = False
        self._method = b""

    async def run(self) -> str:
        reason, answer = "", b""
        try:
            await _beside(self._watch_idleness(), self._serve_all())
        except Refusal as refused:
            reason, answer = refused.reason, self._refusal(refused)
            if refused.status in _OF_THE_POLICY:
                self._count.refuse(refused.rule, refused.reason)
        except _Gone as gone:
            reason = str(gone)
            if reason == QUOTA:
                answer = self._refusal(Refusal(403, "The sandbox's network quota is used up.", rule="bytes"))
        except h11.ProtocolError:  # of a part that was understood, but that cannot be said in this place
            reason, answer = BROKEN, self._refusal(Refusal(502, "The answer cannot be passed on."))
        except ssl.SSLError as failed:
            reason = f"The program broke off TLS: {told(failed)}."  # often, it does not trust the authority
        except OSError:
            pass  # of the client; what the server's raised has become one of the others
        await self._leave_server()
        if self._is_answering or (reason and not answer):
            self._client.reset()  # half an answer must not look like a whole one
        else:
            await self._client.say_last(answer)
        return reason

    def close(self) -> None:
        self._client.reset()
        if self._server is not None:
            self._server.reset()

    async def _serve_all(self) -> None:
        while await self._serve():
            self._begin()

    async def _serve(self) -> bool:
        """Pass on one request and its answer; return whether another one may follow."""
        asked = await self._asked()
        if asked is None:
            return False
        self._method = asked.method
        while True:
            is_fresh = await self._connect()
            try:
                await self._ask(asked)
                await _beside(self._upload(), self._answer(asked))
                break
            except _Gone as gone:
                if str(gone) != BROKEN or self._is_answering:
                    raise
                if is_fresh or self._heard_server:
                    raise Refusal(502, f"{self._name}:{self._port} closed the connection without an answer.") from None
                # The server may have closed just now, because the connection was silent for long.
                if asked.has_body or not asked.is_repeatable:
                    raise  # its program sees a broken connection, as it would without us, and knows what to do
                await self._hang_up()
        if self._is_upgraded:
            await self._pass_raw()
            return False
        done = h11.DONE
        is_spent = self._outer.our_state is not done or self._outer.their_state is not done
        if is_spent or self._outer.trailing_data[0] or self._unmetered:
            await self._hang_up()
        self._unread = bytes(self._inner.trailing_data[0]) + self._unread
        return self._inner.our_state is done and self._inner.their_state is done

    async def _asked(self) -> Asked | None:
        """The next request; None at the end."""
        data, looked_until, is_begun = self._unread, 0, False
        self._unread = b""
        try:
            async with asyncio.timeout(None) as limit:
                while True:
                    if len(data) > 1 and not is_begun:
                        data = data.removeprefix(b"\r\n")  # some clients end a body with an empty line
                        is_begun = data != b""
                    if data and limit.when() is None:
                        limit.reschedule(self._loop.time() + HEAD_S)
                    if end := end_of_head(data, looked_until):
                        break
                    looked_until = len(data)
                    if not (more := await self._hear_client()):
                        return None
                    data += more
        except TimeoutError:
            raise Refusal(408, f"The head of the request took more than {HEAD_S:g} seconds.") from None
        check_lines(data[:end])
        self._inner.receive_data(data)
        try:
            request = self._inner.next_event()
        except h11.RemoteProtocolError as failed:
            raise Refusal(400, f"The request is malformed: {failed}"[:300]) from None
        if not isinstance(request, h11.Request):
            raise Refusal(400, "The request is malformed.")
        asked = Asked(request, self._scheme, self._name, self._port)
        if not asked.has_body:
            self._is_asked = isinstance(self._inner.next_event(), h11.EndOfMessage)
        return asked

    async def _connect(self) -> bool:
        """Have a connection to the server; return whether it is a new one."""
        if self._server is not None:
            if await self._server.is_quiet():
                self._outer = _client()
                return False
            await self._hang_up()
        self._outer = _client()
        try:
            found = await self._dial()
            self._server = found if isinstance(found, Stream) else await Stream.of(found)
        except OSError as failed:
            raise Refusal(502, f"The connection to {self._name}:{self._port} failed: {told(failed)}.") from None
        return True

    async def _hang_up(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            self._unmetered = memoryview(b"")
            await server.close()

    async def _ask(self, asked: Asked) -> None:
        """Send the head of the request, and its end if it has no body."""
        headers = asked.headers + asked.connection()
        if self._exchange is not None:
            headers = self._exchange.request(headers)
        try:
            head = self._outer.send(h11.Request(method=asked.method, target=asked.target, headers=headers))
        except h11.LocalProtocolError:  # its text may have a secret
            raise Refusal(400, "A header of the request is malformed.") from None
        await self._tell_server(
            (head or b"") + (self._outer.send(h11.EndOfMessage()) or b"" if self._is_asked else b"")
        )

    async def _leave_server(self) -> None:
        """End the connection in order, if the server is not in the middle of something."""
        if {self._outer.our_state, self._outer.their_state} <= _AT_REST:
            await self._hang_up()

    async def _upload(self) -> None:
        """Pass on the request's body; then notice that the client has gone, although it is not its turn."""
        while not self._is_asked:
            try:
                event = self._inner.next_event()
            except h11.RemoteProtocolError as failed:
                raise Refusal(400, f"The request's body is malformed: {failed}"[:300]) from None
            if event is h11.NEED_DATA:
                self._inner.receive_data(await self._hear_client())
                continue
            if isinstance(event, h11.EndOfMessage):
                self._is_asked = True
                event = h11.EndOfMessage(headers=trailers(event.headers))
            try:
                await self._tell_server(self._outer.send(event) or b"")  # type: ignore[arg-type]
            except _Gone as gone:
                if str(gone) == BROKEN:
                    return  # the server may have answered before
                raise
        while more := await self._hear_client():
            self._unread += more
            if len(self._unread) > _MOST_AHEAD:
                return  # the rest can wait
        before = -1
        while before != self._count.down:
            before = self._count.down
            await asyncio.sleep(_GIVEN_UP_S)
        raise _Gone("")

    async def _answer(self, asked: Asked) -> None:
        """Pass on everything that the server answers."""
        for _ in range(_MOST_INTERIM):
            event = await self._hear_server()
            if not isinstance(event, h11.InformationalResponse):
                break
            headers = await self._changed(end_to_end(event.headers))
            if event.status_code == 101:
                headers += asked.connection()
                self._is_upgraded = True
            if not asked.is_old:
                await self._tell_client(h11.InformationalResponse(status_code=event.status_code, headers=headers))
            if self._is_upgraded:
                return
        if not isinstance(event, h11.Response):
            raise self._nonsense()
        headers = end_to_end(event.headers)
        if self._exchange is not None:
            async with self._exchange.turn:
                headers = self._exchange.response_head(headers)
            if asked.method != b"HEAD" and event.status_code not in (204, 304):
                headers = [(key, value) for key, value in headers if key.lower() != b"content-length"]
        if self._is_proxied:  # the next request of a proxy's client may be for another host
            headers.append((b"Connection", b"close"))
        self._is_answering = True
        await self._tell_client(
            h11.Response(status_code=event.status_code, headers=headers, reason=self._reason(event))
        )
        while isinstance(body := await self._hear_server(), h11.Data):
            if self._exchange is None:
                await self._tell_client(body)
            else:
                await self._tell_changed(self._exchange.turn, self._exchange.response_body(bytes(body.data)))
        if not isinstance(body, h11.EndOfMessage):
            raise _Gone(BROKEN)
        if self._exchange is not None:
            await self._tell_changed(self._exchange.turn, self._exchange.response_end())
        last = [] if asked.is_old else await self._changed(trailers(body.headers))
        await self._tell_client(h11.EndOfMessage(headers=last))
        self._is_answering = False

    async def _tell_changed(self, turn: asyncio.Lock, pieces: Iterable[bytes]) -> None:
        """Pass on the pieces of a body as they are made; after each of them it is the turn of others."""
        left = iter(pieces)
        while True:
            async with turn:
                piece = next(left, None)
                await asyncio.sleep(0)
            if piece is None:
                return
            await self._tell_client(h11.Data(piece))

    async def _changed(self, headers: Headers) -> Headers:
        if self._exchange is None:
            return headers
        async with self._exchange.turn:
            return self._exchange.response_headers(headers)

    def _reason(self, response: h11.Response) -> bytes:
        return response.reason if self._exchange is None else b""

    async def _pass_raw(self) -> None:
        """Pass on the bytes of a WebSocket, both ways, until the server ends it."""
        await _beside(self._raw_up(), self._raw_down())

    async def _raw_up(self) -> None:
        data = bytes(self._inner.trailing_data[0]) + self._unread
        while data or (data := await self._hear_client()):
            await self._tell_server(data)
            data = b""
        if self._server is None or not self._server.finish():
            raise _Gone("")

    async def _raw_down(self) -> None:
        data = bytes(self._outer.trailing_data[0])
        while data or (data := await self._hear_raw()):
            if self._exchange is not None:
                async with self._exchange.turn:
                    data = self._exchange.raw(data)
                    await asyncio.sleep(0)
            await self._client.send(data)
            data = b""
        if self._exchange is not None:
            await self._client.send(self._exchange.raw(b""))

    async def _hear_client(self) -> bytes:
        data = await self._client.receive()
        self._active_at = self._loop.time()
        return data

    async def _tell_client(self, event: h11.Event) -> None:
        if data := self._inner.send(event):
            await self._client.send(data)
            self._active_at = self._loop.time()

    async def _hear_server(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next part of the server's answer."""
        while True:
            try:
                event = self._outer.next_event()
            except h11.RemoteProtocolError:  # its text may have what the server echoes
                raise self._nonsense() from None
            if event is not h11.NEED_DATA:
                return event
            data = await self._hear_raw()
            if not data and not self._is_answering:
                raise _Gone(BROKEN)
            self._outer.receive_data(data)

    async def _hear_raw(self) -> bytes:
        """Bytes of the server, as many as may pass now."""
        assert self._server is not None
        if not self._unmetered:
            try:
                self._unmetered = memoryview(await self._server.receive())
            except OSError:
                raise _Gone(BROKEN) from None
            if not self._unmetered:
                return b""
        self._heard_server = True
        granted = await self._meter.take(len(self._unmetered), self._count)
        if not granted:
            raise _Gone(QUOTA)
        data, self._unmetered = bytes(self._unmetered[:granted]), self._unmetered[granted:]
        self._count.down += granted
        self._active_at = self._loop.time()
        return data

    async def _tell_server(self, data: bytes) -> None:
        assert self._server is not None
        rest = memoryview(data)
        while rest:
            granted = await self._meter.take(len(rest), self._count)
            if not granted:
                raise _Gone(QUOTA)
            try:
                await self._server.send(rest[:granted])
            except OSError:
                raise _Gone(BROKEN) from None
            self._count.up += granted
            rest = rest[granted:]
            self._active_at = self._loop.time()

    def _nonsense(self) -> Exception:
        if self._is_answering:
            return _Gone(BROKEN)
        return Refusal(502, f"{self._name}:{self._port} sent something else than an answer in HTTP/1.1.")

    def _refusal(self, refused: Refusal) -> bytes:
        whole = http_refusal(refused.status, self._name, self._port, refused.rule, refused.reason, refused.remedy)
        return whole[: whole.index(b"\r\n\r\n") + 4] if self._method == b"HEAD" else whole

    async def _watch_idleness(self) -> None:
        while (left := self._active_at + self._idle_s - self._loop.time()) > 0:
            await asyncio.sleep(left)
        raise _Gone(IDLE if self._method else "")


def _client() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)


async def _beside(side: Coroutine[None, None, None], main: Coroutine[None, None, None]) -> None:
    """Run both until the main one ends; raise the first thing that goes wrong in either."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(side)
            await main
            task.cancel()
    except BaseExceptionGroup as failed:
        first: BaseException = failed
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
