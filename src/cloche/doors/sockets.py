"""WebSockets: a refusal is an HTTP answer before the WebSocket is accepted, and a close code afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from cloche.doors.http.problems import problem_response
from cloche.errors import ClocheError, Gone, InvalidRun, Refused

SUBPROTOCOL = "cloche"
CALLER_LEFT, OUR_FAULT, UNWELCOME = 1005, 1011, 1008
_CODES: tuple[tuple[type[ClocheError], int], ...] = ((Gone, 4404), (InvalidRun, 4400), (Refused, 4409))
_LONGEST_REASON = 120  # bytes; a close frame has room for 123


class ClientLeft(ConnectionError):
    pass


class Socket:
    """One WebSocket; sending raises ClientLeft once the client has left."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.accepted = False
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
        try:
            await self._send({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})
        except OSError:
            raise ClientLeft from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        short = reason.encode(errors="replace")[:_LONGEST_REASON].decode(errors="ignore")
        await self._send({"type": "websocket.close", "code": code, "reason": short})

    async def refuse(self, problem: ClocheError) -> None:
        """Send the problem: as an HTTP answer before the WebSocket is accepted, by closing it afterwards."""
        if not self.accepted:
            await problem_response(problem)(self.scope, self._receive, self._send)
            return
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
