"""TLS for a connection to a server."""

from __future__ import annotations

import ssl
from _thread import allocate_lock

from cloche.io.streams import AsyncStream


class AsyncTls:
    """TLS over a stream, with the same methods as the stream."""

    def __init__(self, stream: AsyncStream, host: str) -> None:
        self._stream = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusted().wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = allocate_lock()  # one task may send while another receives; never held during a wait

    async def shake_hands(self, timeout: float) -> None:
        """Negotiate the keys, and check the server's certificate."""
        while True:
            with self._lock:
                try:
                    self._tls.do_handshake()
                    done = True
                except ssl.SSLWantReadError:
                    done = False
                data = self._outgoing.read()
            if data:
                await self._stream.send(data, timeout)
            if done:
                return
            self._take(await self._stream.receive(64 << 10, timeout))

    async def receive(self, size: int, timeout: float | None = None) -> bytes:
        """Wait for at most `size` bytes; empty at the end.  TimeoutError when nothing comes."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(size)
                except ssl.SSLWantReadError:
                    data = self._outgoing.read()
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            if data:
                await self._stream.send(data)
            self._take(await self._stream.receive(256 << 10, timeout))

    async def send(self, data: bytes, timeout: float | None = None) -> None:
        """Send all of the data."""
        await self._stream.send(self.sealed(data), timeout)

    def sealed(self, data: bytes) -> bytes:
        """Encrypt data for a caller that sends the bytes itself."""
        with self._lock:
            self._tls.write(data)
            return self._outgoing.read()

    def shut(self) -> None:
        """Shut the connection down, and wake the tasks that wait for it."""
        self._stream.shut()

    def close(self) -> None:
        """Close the connection; no task may wait for it any more."""
        self._stream.close()

    def _take(self, data: bytes) -> None:
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()


_contexts: list[ssl.SSLContext] = []


def trusted() -> ssl.SSLContext:
    """Return the certificates that this host trusts; they are read once, because that takes a while."""
    if not _contexts:
        _contexts.append(ssl.create_default_context())
    return _contexts[0]
