"""Passes a WebSocket on to a server in a sandbox, message by message, with its subprotocol and its close codes."""

from __future__ import annotations

import asyncio

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from cloche.doors.forward.address import ServerAddress
from cloche.doors.forward.headers import Headers
from cloche.doors.forward.http import ANSWER_S
from cloche.doors.http.problems import RequestRefused
from cloche.doors.sockets import SUBPROTOCOL, Socket
from cloche.errors import ClocheError, Gone
from cloche.service.ports import MeteredConnection

MAX_MESSAGE = 16 << 20
STALLED_S = 120.0  # a server that reads nothing for so long is given up
_BAD_GATEWAY, _NOT_TEXT = 1014, 1007
_SENDABLE = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))


class Relay:
    """One WebSocket of a client and its counterpart to the server."""

    def __init__(self, socket: Socket, connection: MeteredConnection, address: ServerAddress) -> None:
        self._socket, self._connection, self._address = socket, connection, address
        self._sending = asyncio.Lock()
        self._message: list[bytes] = []
        self._is_text = False

    async def carry_out(self, target: bytes, headers: Headers) -> None:
        """Connect both and pass messages on until one of them closes."""
        scope = self._socket.scope
        path, _, query = target.decode("latin-1").partition("?")
        offered = [Subprotocol(one) for one in scope.get("subprotocols", ()) if not _is_ours(one)]
        self._protocol = ClientProtocol(
            WebSocketURI(False, "localhost", self._address.port, path, query),
            subprotocols=offered or None,
            max_size=MAX_MESSAGE,
        )
        await self._shake_hands(headers)
        await self._socket.accept(self._protocol.subprotocol)
        there, back = asyncio.create_task(self._there()), asyncio.create_task(self._back())
        try:
            done, _ = await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _shake_hands(self, headers: Headers) -> None:
        request = self._protocol.connect()
        for name, value in headers:
            if name.lower() != b"host":
                request.headers[name.decode("latin-1")] = value.decode("latin-1")
        try:
            async with asyncio.timeout(ANSWER_S):
                self._protocol.send_request(request)
                await self._flush()
                while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
                    await self._take()
        except TimeoutError:
            raise self._refusal(504, "has not answered the WebSocket's handshake in time") from None
        except Gone:
            raise self._refusal(502, "has closed the connection") from None
        except ValueError:
            raise RequestRefused(
                400, "invalid", "The server in the sandbox cannot get this request: it is not valid HTTP."
            ) from None
        problem = self._protocol.handshake_exc
        if isinstance(problem, InvalidStatus):
            status = problem.response.status_code
            raise self._refusal(status if 400 <= status <= 599 else 502, f"refuses WebSockets here (status {status})")
        if problem is not None or self._protocol.state is State.CONNECTING:
            raise self._refusal(502, "does not speak WebSocket")

    def _refusal(self, status: int, what: str) -> RequestRefused:
        return RequestRefused(status, "failed", f"The server on port {self._address.port} in the sandbox {what}.")

    async def _there(self) -> None:
        while (message := await self._socket.receive()) is not None:
            if self._protocol.state is not State.OPEN:
                continue  # the other task is about to close it
            if isinstance(message, str):
                self._protocol.send_text(message.encode())
            else:
                self._protocol.send_binary(message)
            await self._flush()
        code = self._socket.code
        if self._protocol.state is State.OPEN:
            try:
                self._protocol.send_close(*((code, self._socket.reason) if _is_sendable(code) else (1001, "")))
                await self._flush()
            except (ProtocolError, ClocheError):
                pass

    async def _back(self) -> None:
        while True:
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and not await self._pass_on(event):
                    return
            if self._protocol.parser_exc is not None:
                await self._flush()
                code = self._protocol.close_sent.code if self._protocol.close_sent else _BAD_GATEWAY
                await self._socket.close(code, "The server in the sandbox broke the protocol.")
                return
            if self._protocol.state is State.CLOSED:
                await self._socket.close(_BAD_GATEWAY, "The server in the sandbox has closed the connection.")
                return
            try:
                await self._take()
            except Gone:
                self._protocol.receive_eof()

    async def _pass_on(self, frame: Frame) -> bool:
        """Pass a frame on to the client; returns whether more can follow."""
        if frame.opcode is Opcode.CLOSE:
            received = self._protocol.close_rcvd
            await self._flush()
            code = received.code if received is not None and _is_sendable(received.code) else 1000
            await self._socket.close(code, received.reason if received is not None else "")
            return False
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text, self._message = frame.opcode is Opcode.TEXT, []
        elif frame.opcode is not Opcode.CONT:
            return True
        self._message.append(bytes(frame.data))
        if frame.fin:
            data, self._message = b"".join(self._message), []
            try:
                await self._socket.send(data.decode() if self._is_text else data)
            except UnicodeDecodeError:
                await self._socket.close(_NOT_TEXT, "The server in the sandbox sent a text that is not UTF-8.")
                return False
        return True

    async def _take(self) -> None:
        data = await self._connection.receive()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        await self._flush()  # the answers to its pings

    async def _flush(self) -> None:
        async with self._sending:
            for data in self._protocol.data_to_send():
                if data:
                    async with asyncio.timeout(STALLED_S):
                        await self._connection.send(data)
                else:
                    await self._connection.send_eof()


def _is_ours(subprotocol: str) -> bool:
    return subprotocol == SUBPROTOCOL or subprotocol.startswith(f"{SUBPROTOCOL}-key.")


def _is_sendable(code: int) -> bool:
    return code in _SENDABLE or 3000 <= code < 5000


class Tunnel:
    """Raw bytes in both directions, as binary messages; the text "eof" ends one direction."""

    def __init__(self, socket: Socket, connection: MeteredConnection) -> None:
        self._socket, self._connection = socket, connection
        self._client_is_done = asyncio.Event()  # the client has sent all that it will

    async def carry_out(self) -> None:
        """Pass bytes on until both directions have ended or the client leaves."""
        there, back = asyncio.create_task(self._there()), asyncio.create_task(self._back())
        try:
            done, _ = await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _there(self) -> None:
        while (message := await self._socket.receive()) is not None:
            if message == "eof":
                await self._connection.send_eof()
                self._client_is_done.set()
            elif isinstance(message, bytes) and not self._client_is_done.is_set():
                try:
                    async with asyncio.timeout(STALLED_S):
                        await self._connection.send(message)
                except Gone:
                    self._client_is_done.set()  # the server reads no more, but its last bytes can still be passed back

    async def _back(self) -> None:
        try:
            async for data in self._connection:
                await self._socket.send(data)
        except Gone:
            self._client_is_done.set()  # the connection was cut
        await self._socket.send("eof")
        await self._client_is_done.wait()
        await self._socket.close()
