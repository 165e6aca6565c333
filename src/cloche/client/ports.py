"""Servers inside a sandbox on a server: connections to them go through a WebSocket."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from json import loads
from time import monotonic

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from cloche.errors import Gone, SandboxFailed
from cloche.model.files import Port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncServerSandbox

_WAIT_S = 25.0  # time that one request waits for a port; then the next request continues
_PIECE = 256 << 10
_HANDSHAKE_S = 30.0
_NOBODY = 502  # the status for a port on which nothing listens


class AsyncServerPorts:
    """The ports of one sandbox."""

    def __init__(self, box: AsyncServerSandbox) -> None:
        self._box = box

    async def list(self) -> list[Port]:
        """List the ports on which servers listen, in order."""
        return [Port(port["port"], port["address"], port.get("pid")) for port in await self._box.items("/ports")]

    async def wait(self, port: int, timeout: float | None) -> Port:
        """Wait until a server on this port accepts connections; raise Gone if none does in time."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = _WAIT_S if deadline is None else min(max(deadline - monotonic(), 0), _WAIT_S)
            answer = await self._box.call("GET", f"/ports/{port}?wait={left:.3f}")
            if answer["listening"]:
                for found in await self.list():
                    if found.port == port:
                        return found
            if deadline is not None and monotonic() >= deadline:
                raise _nothing(port)

    async def connect(self, port: int) -> AsyncServerTunnel:
        """Connect to a server inside."""
        await self._box.open()
        server = self._box.server
        stream, _ = await server.open_stream()
        connection = AsyncServerTunnel(self._box, stream)
        try:
            is_open = await connection.shake_hands(
                f"ws://{server.host}:{server.port}{server.prefix}{self._box.path(f'/tunnel?port={port}')}",
                server.key_headers(),
            )
        except BaseException:
            stream.close()
            raise
        if not is_open:
            stream.close()
            raise connection.refusal(port)
        return connection


class AsyncServerTunnel:
    """A connection to a server inside a sandbox."""

    def __init__(self, box: AsyncServerSandbox, stream: Any) -> None:
        self._box, self._stream = box, stream
        self._protocol: Any = None
        self._events: deque[bytes] = deque()
        self._ended = self._eof_sent = self._closed = False

    async def shake_hands(self, url: str, headers: dict[str, str]) -> bool:
        """Upgrade the connection to a WebSocket; return whether that succeeded."""
        self._protocol = ClientProtocol(parse_uri(url), max_size=None)
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)
        await self._flush()
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            await self._take(_HANDSHAKE_S)
            if self._ended:
                break
        return self._protocol.state is State.OPEN

    def refusal(self, port: int) -> Exception:
        """Return the error for a handshake that failed."""
        refused = self._protocol.handshake_exc
        if not isinstance(refused, InvalidStatus):
            return SandboxFailed(f"No connection can be made: {refused}.", "Look at the server's log.")
        try:
            problem = loads(refused.response.body or b"")
        except ValueError:
            problem = None
        status = refused.response.status_code
        return _nothing(port) if status == _NOBODY else self._box.server.refusal(status, problem)

    async def receive(self) -> bytes:
        """Wait for the next bytes; empty at the end."""
        while not self._events and not self._ended and not self._closed:
            await self._take(None)
        if self._events:
            data: bytes = self._events.popleft()
            return data
        if self._box.closed and not self._closed:
            raise _ended()
        return b""

    async def send(self, data: memoryview) -> None:
        """Send all of the data; wait while the server does not read."""
        if self._box.closed:
            raise _ended()
        if self._eof_sent or self._closed:
            raise Gone("This connection was closed for sending.", hint="Open another with ports.connect.")
        for start in range(0, len(data), _PIECE):
            if self._protocol.state is not State.OPEN:
                raise Gone("The server in the sandbox has closed the connection.")
            self._protocol.send_binary(bytes(data[start : start + _PIECE]))
            await self._flush()

    async def send_eof(self) -> None:
        """End the sending direction."""
        if not self._eof_sent and not self._closed and self._protocol.state is State.OPEN:
            self._eof_sent = True
            self._protocol.send_text(b"eof")
            await self._flush()

    async def close(self) -> None:
        """Close the connection at once, in both directions."""
        if not self._closed:
            self._closed = True
            self._stream.shut()
            self._stream.close()

    def __del__(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.close()

    async def _take(self, timeout: float | None) -> None:
        try:
            data = await self._stream.receive(_PIECE, timeout)
        except OSError:
            data = b""
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            self._ended = True
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                continue
            self._frame(event)
        await self._flush()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT) and frame.data:
            self._events.append(bytes(frame.data))
        elif frame.opcode is Opcode.CLOSE or (frame.opcode is Opcode.TEXT and frame.data == b"eof"):
            self._ended = True

    async def _flush(self) -> None:
        try:
            for data in self._protocol.data_to_send():
                if data:
                    await self._stream.send(data, 60)
        except (OSError, WebSocketException):
            self._ended = True


def _ended() -> Gone:
    return Gone("The sandbox has ended: it was closed.", hint="Make a new one.")


def _nothing(port: int) -> Gone:
    return Gone(
        f"Nothing listens on port {port} in the sandbox yet.",
        "Start the server first, and have it listen on 127.0.0.1 or 0.0.0.0.",
    )
