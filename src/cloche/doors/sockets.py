"""WebSockets: a refusal is an HTTP answer before the WebSocket is accepted, and a close code afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from starlette.types import Receive, Scope, Send

from cloche.doors.faults import for_client
from cloche.doors.http.problems import problem_response
from cloche.doors.unread import UNREAD, moving
from cloche.errors import ClocheError, Gone, InvalidRun, Refused
from cloche.service.event_log import PIECE

SUBPROTOCOL = "cloche"
CALLER_LEFT, NOT_TEXT, OUR_FAULT, UNWELCOME = 1005, 1007, 1011, 1008
_CODES: tuple[tuple[type[ClocheError], int], ...] = ((Gone, 4404), (InvalidRun, 4400), (Refused, 4409))
_LONGEST_REASON = 120  # bytes; a close frame has room for 123


class ClientLeft(ConnectionError):
    pass


class Socket:
    """One WebSocket; sending raises ClientLeft once the client has left."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.accepted = self._closed = False
        self._sending = asyncio.Lock()  # parts of different messages must not mix
        self._is_within = False  # a message was begun and not completed
        self.code, self.reason = CALLER_LEFT, ""  # how the client closed it, once `receive` has returned None

    async def accept(self, subprotocol: str | None = None) -> None:
        """Accept the WebSocket; without `subprotocol`, with our own if the client offers it."""
        if subprotocol is None and SUBPROTOCOL in self.scope.get("subprotocols", ()):
            subprotocol = SUBPROTOCOL
        await self._receive()
        self.accepted = True
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def receive(self) -> str | bytes | None:
        """Receive the next message, text or bytes; None if the client has left."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self.code, self.reason = message.get("code") or CALLER_LEFT, message.get("reason") or ""
            return None
        text: str | None = message.get("text")
        data: bytes = message.get("bytes") or b""
        return data if text is None else text

    async def send(self, message: str | bytes) -> None:
        """Send a message; waits while the client reads nothing."""
        async with self._sending:
            await self._send_part({"text" if isinstance(message, str) else "bytes": message})

    async def send_pieces(
        self, pieces: Iterable[str], size: int = 0, prepare: Callable[[], None] | None = None
    ) -> None:
        """Send one message whose text is made while it is sent, as fast as the client reads; nothing if it is empty.

        `size` is about the number of bytes that are kept in memory meanwhile.  `prepare` is called first, in a thread.
        """
        async with self._sending:
            if size <= PIECE:
                await self._send_parts(pieces)
                return
            with UNREAD.hold(size, self.scope["state"]["abort"]) as unsent:
                if prepare is not None:
                    await asyncio.to_thread(prepare)
                await self._send_parts(moving(pieces, unsent))

    async def _send_parts(self, pieces: Iterable[str]) -> None:
        before: str | None = None
        is_first = True
        for piece in pieces:
            if before is not None:
                await self._send_part({"text": before, "more": True}, is_first)
                is_first = False
            before = piece
        if before is not None:
            await self._send_part({"text": before}, is_first)

    async def _send_part(self, part: dict[str, str | bytes | bool], is_first: bool = True) -> None:
        # Closed: by another task, while this one had still something to say.  Within: an earlier message was broken
        # off, and the client can make nothing of another.
        if self._closed or (self._is_within and is_first):
            raise ClientLeft
        self._is_within = "more" in part
        try:
            await self._send({"type": "websocket.send", **part})
        except (OSError, RuntimeError):  # uvicorn's RuntimeError: it has closed the WebSocket by itself
            raise ClientLeft from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._closed:
            return
        self._closed = True
        short = reason.encode(errors="replace")[:_LONGEST_REASON].decode(errors="ignore")
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": short})
        except RuntimeError:
            raise ClientLeft from None

    async def refuse(self, problem: ClocheError) -> None:
        """Send the problem: as an HTTP answer before the WebSocket is accepted, by closing it afterwards."""
        if not self.accepted:
            await problem_response(problem)(self.scope, self._receive, self._send)
            return
        problem = for_client(problem)
        code = next((code for kind, code in _CODES if isinstance(problem, kind)), OUR_FAULT)
        await self.close(code, problem.message)


class Door:
    """The ASGI application of one kind of WebSocket."""

    def __init__(self, handle: Callable[[Socket], Awaitable[None]]) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = Socket(scope, receive, send)
        try:
            try:
                await self._handle(socket)
            except ClocheError as problem:
                await socket.refuse(problem)
        except OSError:
            pass  # the client has left
