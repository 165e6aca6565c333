"""A connection as a stream of bytes, plain or over TLS, whichever side began it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol

from cloche.egress.refusals import break_when_closed
from cloche.egress.room import ROOM

_BUFFER, _LEAST = 64 << 10, 8 << 10  # bytes, of which a connection has some while nobody reads
_WITH_WHOLE_BUFFERS = 32  # connections of all sandboxes; with more, new ones have smaller buffers
SSLProtocol.max_size = _BUFFER  # it would be four times that
_HANDSHAKE_S = 30.0
_FAREWELL_S = 2.0
_FAREWELL_BYTES = 256 << 10


class Stream:
    """A connected socket; `Stream.of(sock)` takes over an accepted or dialled one, non-blocking or not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._socket = writer.get_extra_info("socket")  # TLS forgets it at the end
        self._size = _size()

    @classmethod
    async def of(
        cls,
        sock: socket.socket,
        context: ssl.SSLContext | None = None,
        *,
        server_name: str | None = None,
    ) -> Stream:
        """Take over a socket.  With a context it speaks TLS: as a client if `server_name` is given, else as a server.

        The socket is closed if this fails: OSError, of which ssl.SSLError is a kind.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_size() // 2, loop=loop)  # it stops at twice that
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        limit = None if context is None else _HANDSHAKE_S
        try:
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:  # asyncio does this for some sockets alone, and not for accepted ones
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server_name is None:
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, sock, ssl=context, ssl_handshake_timeout=limit
                )
            else:
                transport, _ = await loop.create_connection(
                    lambda: protocol, sock=sock, ssl=context, server_hostname=server_name, ssl_handshake_timeout=limit
                )
        except BaseException:
            sock.close()
            raise
        transport.set_write_buffer_limits(_size())  # with TLS it would be eight times as much
        if hasattr(transport, "max_size"):
            transport.max_size = _size()  # of one read
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def receive(self) -> bytes:
        """The bytes that have arrived, at most 64 KiB; nothing at the end.  OSError if the connection is broken."""
        return await self._reader.read(self._size)

    async def send(self, data: bytes | memoryview) -> None:
        """Send the data, and wait until the other side has taken most of it.  OSError if the connection is broken."""
        if self._writer.is_closing():
            raise ConnectionResetError("The connection is closed.")
        self._writer.write(data)
        await self._writer.drain()

    def finish(self) -> bool:
        """Say that nothing more will be sent; return whether that can be said: over TLS it cannot."""
        can = self._writer.can_write_eof() and not self._writer.is_closing()
        if can:
            self._writer.write_eof()
        return can

    async def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived."""
        try:
            async with asyncio.timeout(0):
                await self._reader.read(1)
        except TimeoutError:
            return not self._writer.is_closing()
        except OSError:
            pass
        return False

    async def close(self) -> None:
        """End the connection after everything sent has gone, but do not wait for long."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                self._writer.close()
                await self._writer.wait_closed()
        except OSError:  # a TimeoutError as well
            pass
        finally:
            self._writer.transport.abort()

    async def say_last(self, data: bytes) -> None:
        """Send the last bytes and close, so that they arrive although the other side has sent more than was read."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self.send(data)
                left = _FAREWELL_BYTES if self.finish() else 0  # TLS reads the rest itself when it is closed
                while left > 0 and (more := await self.receive()):
                    left -= len(more)
        except OSError:
            pass
        await self.close()

    def reset(self) -> None:
        """Close so that the other side sees the connection broken, and not ended."""
        break_when_closed(self._socket)
        self._writer.transport.abort()


def _size() -> int:
    """Bytes for each of a connection's buffers."""
    return max(_LEAST, _BUFFER * _WITH_WHOLE_BUFFERS // max(_WITH_WHOLE_BUFFERS, ROOM.held))


def told(failed: OSError) -> str:
    """What went wrong, in the words of the system or of TLS."""
    if isinstance(failed, ssl.SSLError) and failed.reason:
        return failed.reason.replace("_", " ").lower()
    return failed.strerror or type(failed).__name__
