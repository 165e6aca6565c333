"""Bounds connections: how long a client may take, how much it may send before the gate knows it, and how many exist.

Uvicorn waits as long as a client likes.  Here a stranger can hold a connection for seconds only: the head of a request
must come in time and be of a sane size, and a connection that has shown no key is not kept open for long.
"""

from __future__ import annotations

import asyncio
from json import dumps
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from cloche.doors.sockets import UNWELCOME

HEAD_S = 10.0  # for the head of a request, and for the first byte of a connection
BODY_S = 30.0  # without a byte of the body
LINGER_S = 5.0  # for the rest of a body whose request was answered early
STRANGER_S = 5.0  # between requests, when the last one had no key
READ_S = 120.0  # during which the client reads nothing of its answer
MAX_HEAD = 64 << 10  # bytes of the address and the headers
MAX_HEADERS = 200
MAX_CONNECTIONS = 2000


class Connection(HttpToolsProtocol):
    """One client's connection, within bounds."""

    at_most = MAX_CONNECTIONS

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._usual_keep_alive = self.timeout_keep_alive
        self._timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None
        self._heard = 0.0  # when the last byte came
        self._in_head, self._in_body = True, False
        self._head_size = 0  # bytes that have come while the head was not complete
        self._bytes = self._count = 0  # of the headers that were found
        self._too_large = self._is_websocket = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.at_most:
            self._refuse(503, "busy", "There are too many connections.", b"retry-after: 5\r\n")
            return
        self._arm(HEAD_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self.parser is None:
            return
        self._heard = self.loop.time()
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        # The parser reports a header only when it is complete, so the bytes that have come are counted as well.
        if self._in_head and self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")
        if self._is_websocket:
            self._disarm()
        elif self._timer is None and self.timeout_keep_alive_task is None and not self._is_busy():
            self._arm(HEAD_S, self._head_is_late)  # only empty lines so far: no request yet

    def handle_websocket_upgrade(self) -> None:
        self._disarm()
        self._is_websocket = True
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's message)
        if self.transport.is_closing():
            return
        if self._too_large:
            self._refuse(431, "invalid", "The head of the request is too large.")
        else:
            self._refuse(400, "invalid", "This is not HTTP.")

    def hang_up(self, key_id: str) -> None:
        """End the request under way if it came with this key, as if the client had left."""
        if self.cycle is None or not self._is_busy():
            return
        if _key_of(self.cycle.scope) == key_id and not self.cycle.scope["state"].get("outlives_key"):
            self.transport.close()

    # --- what the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_size, self._bytes, self._count = True, 0, 0, 0
        self._arm(HEAD_S, self._head_is_late)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._bound(len(url), 0)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, which come after the body, are dropped.
        self._bound(len(name) + len(value), 1)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._in_body, self._head_size, self._bytes, self._count = False, True, 0, 0, 0
        self._arm(BODY_S / 3, self._look_at_body)
        super().on_headers_complete()

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
        if not was_last or self.transport.is_closing():
            return
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
        # Either we make the client wait, or the body is what a person types.
        state = self.cycle.scope.get("state", {})
        ours = self.flow.read_paused or self.cycle.waiting_for_100_continue or state.get("patient")
        if ours:
            self._heard = self.loop.time()
        if self.loop.time() - self._heard < BODY_S:
            self._arm(BODY_S / 3, self._look_at_body)
        elif self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse(408, "invalid", "The rest of the body did not arrive in time.")

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
        self.transport.close()
        self._arm(LINGER_S, self.transport.abort)  # for a client that does not even read this


class Messages(WebSocketsSansIOProtocol):
    """A WebSocket that pauses reading when a second message waits; uvicorn pauses and resumes with every message."""

    def hang_up(self, key_id: str) -> None:
        """Close the WebSocket if it was opened with this key."""
        if not self.handshake_initiated or _key_of(self.scope) != key_id or self.transport.is_closing():
            return
        if self.handshake_complete and not self.close_sent:
            self.conn.fail(UNWELCOME, "This key was revoked.")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()

    def send_receive_event_to_app(self) -> None:
        was_paused, self.read_paused = self.read_paused, True  # so that uvicorn does not pause
        super().send_receive_event_to_app()
        self.read_paused = was_paused
        if not was_paused and not self.close_sent and self.queue.qsize() > 1:
            self.read_paused = True
            self.transport.pause_reading()


def _key_of(scope: Any) -> str:
    """The id of the caller's key, once the gate has admitted the request."""
    caller = scope["state"].get("caller")
    return "" if caller is None else caller.key_id
