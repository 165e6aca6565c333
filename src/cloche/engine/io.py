"""The few primitives that differ between asyncio and plain threads; `cloche.blocking.io` is the hand-written twin."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence


class AsyncStream:
    """A connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock

    async def receive(self, size: int, timeout: float | None = None) -> bytes:
        """What has arrived, at most `size` bytes; nothing at the end.  TimeoutError when nothing comes."""
        loop = asyncio.get_running_loop()
        if timeout is None:
            return await loop.sock_recv(self._socket, size)
        async with asyncio.timeout(max(timeout, 0)):
            return await loop.sock_recv(self._socket, size)

    async def send(self, data: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            await loop.sock_sendall(self._socket, data)

    def shut(self) -> None:
        """Nothing more comes or goes; whoever waits for something wakes up."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Close it; nobody may wait on it any more."""
        self._socket.close()


async def send_descriptors(fd: int, data: bytes, descriptors: Sequence[int]) -> None:
    """Send one message, with descriptors attached, on the message socket behind a descriptor."""
    copy = socket.socket(fileno=os.dup(fd))  # several may wait for it, and a loop has one callback per descriptor
    try:
        while True:
            try:
                socket.send_fds(copy, [data], descriptors, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                return
            except BlockingIOError:
                await _writable(copy)
    finally:
        copy.close()


async def _writable(copy: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_writer(copy, _wake, future)
        await future
    finally:
        loop.remove_writer(copy)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


AsyncLock = asyncio.Lock


class AsyncCondition(asyncio.Condition):
    """A condition whose wait can time out."""

    async def wait_for_change(self, timeout: float | None) -> None:
        """Wait until somebody notifies; TimeoutError when nobody does."""
        async with asyncio.timeout(timeout):
            await self.wait()
