"""Bounds WebSockets in the same way: messages in both directions, in pieces, and in turns with other connections."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from time import monotonic
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.streams import StreamReader

from cloche.doors.connections import AT_ONCE, MAX_WAITING, PIECE, READ_S, key_of
from cloche.doors.json_input import joined
from cloche.doors.sockets import NOT_TEXT, UNWELCOME
from cloche.doors.turns import TURN_S, Turns
from cloche.doors.unread import UNREAD
from cloche.doors.visitors import Visitor
from cloche.io.tasks import off_loop
from cloche.policy.refusals import TooMany


class Messages(WebSocketsSansIOProtocol):
    """A WebSocket, within bounds.

    Reading pauses when a second message waits; uvicorn pauses and resumes with every message.  A long message is sent
    in several frames, as fast as the client reads.
    """

    _turns: Turns | None = None
    _reading_timer: asyncio.TimerHandle | None = None
    _sent, _since = 0, 0.0  # since others had their turn: bytes of messages, and the time while a message is sent

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(MAX_WAITING)
        self.conn.reader.read_exact = partial(_read_exact, self.conn.reader)  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        if self._turns is None:  # the request, which Connection has read
            super().data_received(data)
            self._turns = Turns(self.transport, super().data_received, lambda: self.read_paused)
        else:
            self._turns.take(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading_timer is None:
            self._reading_timer = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_timer()
        super().resume_writing()

    def _forget_timer(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["state"]["abort"] = self.transport.abort

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # a client that reads nothing gets no answer: its pings would pile up here

    async def send(self, message: Any) -> None:
        """Send a message, or a part of one (`more`); the door sends no other message until its last part."""
        if message["type"] != "websocket.send":
            await super().send(message)
            return
        text = message.get("text")
        data: bytes = message["bytes"] if text is None else text.encode()
        self._sent += len(data)
        if self._sent > AT_ONCE or (self._since and monotonic() - self._since > TURN_S):
            self._sent = 0
            await asyncio.sleep(0)
        self._since = monotonic() if message.get("more") else 0.0
        if len(data) <= PIECE and not message.get("more") and not self.conn.expect_continuation_frame:
            self._count(len(data))
            await super().send({"type": "websocket.send", "bytes": data} if text is None else message)
            return
        with UNREAD.hold(len(data), self.transport.abort) as unsent:
            for start in range(0, len(data) or 1, PIECE):
                is_last = start + PIECE >= len(data) and not message.get("more")
                self._count(len(data[start : start + PIECE]))
                await self._send_frame(data[start : start + PIECE], text is not None, is_last)
                unsent.move()

    def _count(self, size: int) -> None:
        """Count a piece of a stream, or end the stream because the day of its key has no more bytes."""
        if "reader" in self.scope["state"] and not self.close_sent:
            try:
                self.scope["state"]["reader"].count(size)
            except TooMany as problem:
                self._fail(problem.message)
                raise ClientDisconnected from None

    def _fail(self, reason: str) -> None:
        """Close the WebSocket with a reason, even within a message."""
        if self.handshake_complete and not self.close_sent:
            self.conn.fail(UNWELCOME, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()

    async def _send_frame(self, data: bytes, is_text: bool, is_last: bool) -> None:
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        if self.close_sent or self.transport.is_closing():
            return
        if self.conn.expect_continuation_frame:
            self.conn.send_continuation(data, is_last)
        elif is_text:
            self.conn.send_text(data, is_last)
        else:
            self.conn.send_binary(data, is_last)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        visitor: Visitor | None = self.app_state.get("visitor")
        if visitor is not None:
            visitor.leave()
        super().connection_lost(exc)

    def hang_up(self, key_id: str) -> None:
        """Close the WebSocket if it was opened with this key."""
        if not self.handshake_initiated or key_of(self.scope) != key_id or self.transport.is_closing():
            return
        self._fail("This key was revoked.")

    def send_receive_event_to_app(self) -> None:
        # Not by uvicorn's own method: it logs a traceback for a text that is not UTF-8.
        parts, self.frames = self.frames, []
        if self.close_sent:
            return
        message: Any = {"type": "websocket.receive", "is_text": self.curr_msg_data_type == "text", "parts": parts}
        self.queue.put_nowait(message)
        if not self.read_paused and self.queue.qsize() > 1:
            self.read_paused = True
            self.transport.pause_reading()

    async def receive(self) -> Any:
        """The next message, of which a long one is put together in a thread."""
        message: Any = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self._turns is not None:
                self._turns.resume()
        if "parts" not in message:
            return message
        parts: list[bytes] = message["parts"]
        try:
            if not message["is_text"]:
                return {"type": "websocket.receive", "bytes": await joined(parts)}
            text = await off_loop(sum(map(len, parts)), lambda: b"".join(parts).decode())
        except UnicodeDecodeError:
            if not self.close_sent:
                self.conn.send_close(NOT_TEXT, "Text messages are UTF-8.")
                self.handle_parser_exception()
            return await self.receive()  # the end of the connection
        return {"type": "websocket.receive", "text": text}


def _read_exact(reader: StreamReader, size: int) -> Generator[None, None, bytearray]:
    """Read as the library's reader does, except that a long frame is not copied."""
    while len(reader.buffer) < size:
        if reader.eof:
            raise EOFError(f"the stream ends after {len(reader.buffer)} bytes of {size}")
        yield
    if 2 * size < len(reader.buffer):
        found = reader.buffer[:size]
        del reader.buffer[:size]
        return found
    rest = reader.buffer[size:]
    del reader.buffer[size:]
    found, reader.buffer = reader.buffer, rest
    return found
