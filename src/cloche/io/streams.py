"""Socket streams for asyncio; `cloche.blocking.io.streams` is the twin for plain threads, written by hand."""

from __future__ import annotations

import asyncio
import os
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, SCM_RIGHTS, SHUT_RDWR, SOL_SOCKET, socket
from _struct import pack

from cloche.io.tasks import AsyncLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class AsyncStream:
    """A connected socket."""

    def __init__(self, sock: socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._rest = memoryview(b"")  # bytes that are being sent
        self._unsent = bytearray()  # bytes to be sent after those
        self._waiting: tuple[asyncio.AbstractEventLoop, int, asyncio.Future[None]] | None = None

    async def receive(self, size: int, timeout: float | None = None) -> bytes:
        """The bytes that have arrived, at most `size`; nothing at the end.  TimeoutError when nothing comes."""
        # Wait first and read then: a read that is cancelled at the wrong moment would lose its bytes.
        async with asyncio.timeout(None if timeout is None else max(timeout, 0)):
            while True:
                try:
                    return self._socket.recv(size)
                except BlockingIOError:
                    await self._wait()

    async def _wait(self) -> None:
        """Wait for something to read.  `close` takes the socket off the loop: its number is soon another socket's."""
        loop, fd = asyncio.get_running_loop(), self._socket.fileno()
        future: asyncio.Future[None] = loop.create_future()
        loop.add_reader(fd, _wake, future)
        self._waiting = (loop, fd, future)
        try:
            await future
        finally:
            if self._waiting is not None and self._waiting[2] is future:
                self._waiting = None
                loop.remove_reader(fd)

    async def readable(self) -> None:
        """Wait until there is something to receive, or the other end has closed it; nothing is read."""
        copy = os.dup(self._socket.fileno())  # another task may receive, and a loop has one callback for each
        try:
            await _readable(copy)
        finally:
            os.close(copy)

    def has_something(self) -> bool:
        """Return whether a read would return at once."""
        try:
            self._socket.recv(1, MSG_PEEK | MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # it is closed, or broken: a read would say so
        return True

    async def send(self, data: bytes, timeout: float | None = None) -> None:
        """Send all of the data; if this is cancelled, the rest is sent before the next bytes."""
        self._queue(data)
        try:
            self._push()
        except BlockingIOError:
            async with asyncio.timeout(timeout):
                await self._push_all()

    def send_with(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Send a message with descriptors attached, on a socket that keeps messages apart; never wait."""
        rights = (SOL_SOCKET, SCM_RIGHTS, pack(f"{len(descriptors)}i", *descriptors))
        self._socket.sendmsg([message], [rights], MSG_NOSIGNAL | MSG_DONTWAIT)

    def post(self, data: bytes, _sending: AsyncLock) -> None:
        """Send the data without waiting: now, or before the next bytes."""
        self._queue(data)
        try:
            self._push()
        except OSError:
            pass  # no room, or the other end is gone

    def _queue(self, data: bytes) -> None:
        if self._rest:
            self._unsent += data
        else:
            self._rest = memoryview(data)

    def _push(self) -> None:
        while self._rest:
            self._rest = self._rest[self._socket.send(self._rest, MSG_NOSIGNAL) :]
            if not self._rest and self._unsent:
                self._rest = memoryview(bytes(self._unsent))
                self._unsent.clear()

    async def _push_all(self) -> None:
        while True:
            await writable(self._socket.fileno())
            try:
                return self._push()
            except BlockingIOError:
                continue

    def shut(self) -> None:
        """Shut the socket down in both directions, and wake the tasks that wait for it."""
        try:
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Close the socket, and wake the tasks that wait for it."""
        if self._waiting is not None:
            (loop, fd, future), self._waiting = self._waiting, None
            if not loop.is_closed():
                loop.remove_reader(fd)
                _wake(future)
        self._socket.close()


async def readable(fd: int, timeout: float | None = None) -> None:
    """Wait until a socket has something to read; TimeoutError when nothing comes."""
    async with asyncio.timeout(timeout):
        await _readable(fd)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _wake, future)
        await future
    finally:
        loop.remove_reader(fd)


async def writable(fd: int) -> None:
    """Wait until a socket takes more."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    copy = os.dup(fd)  # several may wait for it, and a loop has one callback per descriptor
    try:
        loop.add_writer(copy, _wake, future)
        await future
    finally:
        loop.remove_writer(copy)
        os.close(copy)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
