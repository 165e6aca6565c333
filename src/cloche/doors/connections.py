"""Bounds connections: how long a client may take, how much may be on its way in either direction, and how many exist.

Uvicorn waits as long as a client likes, and takes an answer as a whole.  Here a stranger can hold a connection for
seconds only: the head of a request must come in time and be of a sane size, a body must come at a sane pace, and a
connection that has shown no key is not kept open for long, and not at all when other strangers need the place
(visitors.py).  An answer is passed on in pieces, and a client that reads nothing of it is cut off.
"""

from __future__ import annotations

import asyncio
from json import dumps
from time import monotonic
from typing import Any

from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from cloche.doors.forward.spelling import STATE, Spelling
from cloche.doors.turns import TURN_S, Flow
from cloche.doors.unread import UNREAD
from cloche.doors.visitors import Visitor, Visitors
from cloche.policy.refusals import TooMany

HEAD_S = 10.0  # for the head of a request, and for the first byte of a connection
BODY_S = 30.0  # for the next part of a body
BODY_RATE = 256  # bytes a second of a body, on average over that time; a client that types or streams may be slower
LINGER_S = 5.0  # for the rest of a body whose request was answered early, and for the last words of a stream
CUT_S = 0.1  # that each further piece of a stream takes that was cut off
STRANGER_S = 5.0  # between requests, when the last one had no key
READ_S = 120.0  # during which the client reads nothing of its answer
PIECE = 64 << 10  # bytes of an answer or a message that the transport gets at a time
AT_ONCE = PIECE  # bytes after which other clients get their turn, however fast this one reads
MAX_WAITING = 16 << 10  # bytes that wait in the transport before the next piece waits as well
MAX_HEAD = 64 << 10  # bytes of the address and the headers
MAX_HEADERS = 200
MAX_DISCARDED = 256 << 10  # bytes that a client sends on after it was refused, before the connection is cut
MAX_FRAMING = 16  # bytes around each byte of a chunked body; a chunk of one byte needs six


class Connection(HttpToolsProtocol):
    """One client's connection, within bounds."""

    def __init__(self, *given: Any, visitors: Visitors, **named: Any) -> None:
        super().__init__(*given, **named)
        self._visitors = visitors
        self._visitor: Visitor | None = None
        self._usual_keep_alive = self.timeout_keep_alive
        self._timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None
        self._body_since, self._body_size = 0.0, 0  # bytes of the body since then
        self._in_head, self._in_body = True, False
        self._head_size = 0  # bytes that have come while the head was not complete
        self._bytes = self._count = 0  # of the headers that were found
        self._too_large = self._is_websocket = self._is_refused = False
        self._discarded = 0  # bytes since the refusal
        self._framing = 0  # bytes of the sizes and extensions of chunks, less those that the body may have
        self._spelling = Spelling()  # of the request whose head is being read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: Flow = Flow(transport, self._take)
        transport.set_write_buffer_limits(MAX_WAITING)
        descriptor = transport.get_extra_info("socket").fileno()
        self._visitor = self._visitors.arrive(self.client[0] if self.client else "", self._make_way, descriptor)
        self.app_state = {**self.app_state, "visitor": self._visitor}  # every request's scope gets a copy of it
        self._arm(HEAD_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._visitor is not None:
            self._visitor.leave()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.flow.turns.take(data)

    def _take(self, data: bytes) -> None:
        if self._is_refused:
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED:
                self.transport.abort()
        elif not self._is_websocket:  # whose client may not send anything before our answer
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self.transport.is_closing() or self.parser is None:
            return
        if self._in_head:
            self._head_size += len(data)
        else:
            self._body_size += len(data)
            self._framing += len(data)
        super().data_received(data)
        # The parser reports a header only when it is complete, so the bytes that have come are counted as well.
        if self._in_head and self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")
        if self._in_body and self._framing > MAX_HEAD and not self.transport.is_closing():
            self._end_body(400, "The chunks of the body have too much around them.")
        if self._is_websocket:
            self._disarm()
        elif self._timer is None and self.timeout_keep_alive_task is None and not self._is_busy():
            self._arm(HEAD_S, self._head_is_late)  # only empty lines so far: no request yet

    def handle_websocket_upgrade(self) -> None:
        self._disarm()
        self._is_websocket = True
        self.app_state = {**self.app_state, STATE: self._spelling}  # uvicorn passes the request on in lower case
        super().handle_websocket_upgrade()
        if self._visitor is not None:
            self._visitor.make_way = self.transport.abort

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's message)
        if self.transport.is_closing() or self._is_refused:
            return
        if self._too_large:
            self._refuse(431, "invalid", "The head of the request is too large.")
        else:
            self._refuse(400, "invalid", "This is not HTTP.")

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        cycle.scope["state"]["abort"] = self.transport.abort
        cycle.send = self._in_pieces(cycle.send, cycle.scope["state"])
        super()._start_asgi_task(cycle, app)

    def _in_pieces(self, send: Send, state: dict[str, Any]) -> Send:
        """Pass a body on piece by piece, as fast as the client reads, and count it for a reader."""
        sent, since = 0, 0.0  # since others had their turn: bytes, and the time

        is_cut = False  # the day of its key has no more bytes

        async def is_refused(size: int) -> bool:
            """Count bytes for a reader; when the day of its key has no more, end the answer with the reason."""
            nonlocal is_cut
            if is_cut:
                await asyncio.sleep(CUT_S)  # the application is about to learn that the client is gone
                return True
            try:
                state["reader"].count(size)
            except TooMany as problem:
                is_cut = True
                words = state["last_words"](problem) if "last_words" in state else b""
                if words:
                    await send({"type": "http.response.body", "body": words, "more_body": False})
                self.transport.close()
                self.loop.call_later(LINGER_S, self.transport.abort)
            return is_cut

        async def sending(message: Message) -> None:
            nonlocal sent, since
            body: bytes = message.get("body", b"")
            if "reader" in state and await is_refused(len(body)):
                return
            sent += len(body)
            # Sending waits only for a client that is slower than we are.  To make a piece may take long as well.
            if sent > AT_ONCE or (since and monotonic() - since > TURN_S):
                sent = 0
                await asyncio.sleep(0)
            if message.get("more_body"):
                since = monotonic()
            if len(body) <= PIECE:
                await send(message)
                return
            with UNREAD.hold(len(body), self.transport.abort) as unsent:
                for start in range(0, len(body), PIECE):
                    is_more = start + PIECE < len(body) or message.get("more_body", False)
                    piece = body[start : start + PIECE]
                    await send({"type": "http.response.body", "body": piece, "more_body": is_more})
                    unsent.move()

        return sending

    def hang_up(self, key_id: str) -> None:
        """End the request under way if it came with this key, as if the client had left."""
        if self.cycle is None or not self._is_busy():
            return
        if key_of(self.cycle.scope) == key_id and not self.cycle.scope["state"].get("outlives_key"):
            self.transport.close()

    def _make_way(self) -> None:
        """Close the connection, because another needs its place."""
        if self.transport.is_closing():
            return
        if self._is_busy() or self._is_refused:
            self.transport.abort()
        else:
            self._refuse(503, "busy", "There are too many connections.", b"retry-after: 5\r\n")

    # --- what the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._spelling = self.scope["state"][STATE] = Spelling()
        if self._visitor is not None:
            self._visitor.is_idle = False
        self._in_head, self._head_size, self._bytes, self._count = True, 0, 0, 0
        self._arm(HEAD_S, self._head_is_late)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._bound(len(url), 0)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, which come after the body, are dropped.
        self._bound(len(name) + len(value), 1)
        if self._in_head:
            self._spelling.note(name)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not _is_path(self.url, self.headers):
            raise ValueError("not an address of this server")
        self._framing = 0
        self._in_head, self._in_body, self._head_size, self._bytes, self._count = False, True, 0, 0, 0
        self._body_since, self._body_size = self.loop.time(), 0
        self._arm(BODY_S / 3, self._look_at_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body) * (1 + MAX_FRAMING)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._in_head = False, True
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        was_last = not self.pipeline
        known = "caller" in self.cycle.scope.get("state", {})
        patience = self._usual_keep_alive if known else min(STRANGER_S, self._usual_keep_alive)
        self.timeout_keep_alive = patience  # type: ignore[assignment]  # it is only ever given to a timer
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # uvicorn would take in ever more requests, however many wait
        if not was_last or self.transport.is_closing():
            return
        if self._visitor is not None:
            self._visitor.is_idle = True
        if self._in_body:
            self._arm(LINGER_S, self.transport.abort)
        elif self._timer is not None:
            self._arm(HEAD_S, self._head_is_late)  # the next request has begun to come

    # --- how long it takes

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading_timer is None:
            self._reading_timer = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None
        if self.flow is not None:
            super().resume_writing()

    def _head_is_late(self) -> None:
        if self._is_busy():
            self._arm(HEAD_S, self._head_is_late)  # the previous request is still being answered
        else:
            self._refuse(408, "invalid", "The request took too long to arrive.")

    def _look_at_body(self) -> None:
        # Either we make the client wait, or the body is what a person types or a program streams.
        state = self.cycle.scope.get("state", {})
        ours = self.flow.read_paused or self.cycle.waiting_for_100_continue or state.get("patient")
        needed = 1 if state.get("streams") else BODY_RATE * BODY_S
        if ours or self._body_size >= needed:
            self._body_since, self._body_size = self.loop.time(), 0
        if self.loop.time() - self._body_since < BODY_S:
            self._arm(BODY_S / 3, self._look_at_body)
        else:
            self._end_body(408, "The rest of the body did not arrive in time.")

    def _end_body(self, status: int, message: str) -> None:
        if self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse(status, "invalid", message)

    def _is_busy(self) -> bool:
        return self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete)

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- how much it is

    def _bound(self, size: int, count: int) -> None:
        self._bytes += size
        self._count += count
        if self._bytes > MAX_HEAD or self._count > MAX_HEADERS:
            self._too_large = True
            raise ValueError("too large")

    def _refuse(self, status: int, kind: str, message: str, more: bytes = b"") -> None:
        """Answer without running a route, and close."""
        self._disarm()
        error = {"kind": kind, "message": message, "hint": "", "details": {}}
        body = dumps({"error": error}).encode()
        head = b"content-type: application/json\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
        size = b"content-length: %d\r\n\r\n" % len(body)
        self.transport.write(b"".join((STATUS_LINE[status], head, more, size, body)))
        self._arm(LINGER_S, self.transport.abort)  # for a client that does not even read this
        if status == 503 or not self.transport.can_write_eof():
            self.transport.close()
            return
        # If we closed while bytes of the client are on the way, its system would drop our answer.
        self._is_refused = True
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the application still says would come after the answer
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.transport.resume_reading()


def _is_path(target: bytes, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request is for a path, of the host that its header names: the gate looks at the header only."""
    if target.startswith(b"/"):
        return True
    scheme, _, rest = target.partition(b"://")
    host = rest.partition(b"/")[0].partition(b"?")[0].lower()
    return scheme.lower() == b"http" and [host] == [value.lower() for name, value in headers if name == b"host"]


def key_of(scope: Any) -> str:
    """The id of the caller's key, once the gate has admitted the request, or of the key that a visitor relies on."""
    state: dict[str, Any] = scope["state"]
    caller = state.get("caller")
    return str(state.get("acting_key", "") if caller is None else caller.key_id)
