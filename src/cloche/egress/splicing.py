"""Joins two connections: the kernel moves the bytes, and this process only says when.

Both directions run at once, and each may end before the other.  When one side breaks off, the other one sees a broken
connection too, after everything that had arrived before.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import termios
from collections.abc import Callable

from cloche.egress import pipes
from cloche.egress.meter import Count, Meter
from cloche.egress.refusals import reset

QUOTA, IDLE, BROKEN = "quota", "idle", "reset"  # the reasons that `splice` returns
_CHUNK = 1 << 20
_METERED_CHUNK = 64 << 10
_IN_A_ROW = 8  # chunks, before the other connections have their turn
_LAST_BYTES_S = 5.0  # without progress, for bytes on their way to one side when the other is gone
_LOOK_AGAIN_S = 0.01


class _Ended(Exception):
    """Both directions end now, and both sides see a broken connection."""


async def splice(
    client: socket.socket, server: socket.socket, meter: Meter, count: Count, idle_s: float | None = None
) -> str:
    """Pass bytes between two connected, non-blocking sockets until both directions have ended; close both sockets.

    Return "" when both ended in order or the client broke off; else the reason: "quota", "idle" (nothing passed for
    `idle_s` seconds), or "reset" (the server broke off).  Bytes that were peeked at before are still there and pass.
    """
    reason, is_clean = "", False
    try:
        for sock in (client, server):
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no byte waits here for more to come
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)  # urgent bytes are bytes like others
        await _Joint(client, server, meter, count).run(idle_s)
        is_clean = True
    except* _Ended as ended:
        reason = str(ended.exceptions[0])
    except* OSError:  # a side was gone before the first byte
        reason = BROKEN
    finally:
        for sock in (client, server):
            if is_clean:
                sock.close()
            else:
                reset(sock)
    return reason


class _Joint:
    """The two connections while they are joined."""

    def __init__(self, client: socket.socket, server: socket.socket, meter: Meter, count: Count) -> None:
        self._client, self._server = client, server
        self._meter, self._count = meter, count
        self._loop = asyncio.get_running_loop()
        self._moved_at = self._loop.time()
        self._finished = set[socket.socket]()  # sides from which nothing more comes
        self._gone = set[socket.socket]()  # sides that broke off

    async def run(self, idle_s: float | None) -> None:
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(self._watch_ends())]
            if idle_s is not None:
                watches.append(group.create_task(self._watch_idleness(idle_s)))
            up = group.create_task(self._pass(self._client, self._server))
            await self._pass(self._server, self._client)
            await up
            for watch in watches:
                watch.cancel()
        for side in self._gone:
            await self._break_off(side)

    async def _pass(self, source: socket.socket, target: socket.socket) -> None:
        """One direction, from its first byte to its end."""
        in_a_row = 0
        while True:
            try:
                carrier = await self._filled(source)
            except BlockingIOError:
                in_a_row = 0
                await _ready(source, self._loop.add_reader, self._loop.remove_reader)
                continue
            except OSError:
                await self._break_off(source)
                return
            if carrier is None:
                break
            try:
                await self._drain(carrier, source, target)
            except OSError:
                self._gone.add(target)
                return  # the other direction still passes what the target sent before
            finally:
                carrier.give_back()
            in_a_row += 1
            if in_a_row == _IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)
        self._finished.add(source)
        if source in self._gone:
            await self._break_off(source)
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is gone, as its own direction will find

    async def _filled(self, source: socket.socket) -> pipes.Pipe | pipes.Copy | None:
        if self._meter.is_unbounded:
            carrier, granted = pipes.filled(source, _CHUNK), 0
        else:
            there = int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), "little")
            if not there and not source.recv(1, socket.MSG_PEEK):
                return None
            granted = await self._meter.take(min(there or 1, _METERED_CHUNK), self._count)
            if not granted:
                for side in (self._client, self._server):
                    await _delivered(side)
                raise _Ended(QUOTA)
            try:
                carrier = pipes.filled(source, granted)
            except OSError:
                self._meter.give_back(granted)
                raise
        self._meter.correct((carrier.inside if carrier else 0) - granted)
        return carrier

    async def _drain(self, carrier: pipes.Pipe | pipes.Copy, source: socket.socket, target: socket.socket) -> None:
        while carrier.inside:
            try:
                moved = carrier.drain(target)
            except BlockingIOError:
                await _ready(target, self._loop.add_writer, self._loop.remove_writer)
                continue
            self._moved_at = self._loop.time()
            if source is self._client:
                self._count.up += moved
            else:
                self._count.down += moved

    async def _break_off(self, gone: socket.socket) -> None:
        await _delivered(self._client if gone is self._server else self._server)
        raise _Ended(BROKEN if gone is self._server else "")

    async def _watch_ends(self) -> None:
        """Notice that a side is gone while nobody reads from it: it has finished, or the other side takes no bytes."""
        with select.epoll(2) as ends:
            sides = {side.fileno(): side for side in (self._client, self._server)}
            for number in sides:
                ends.register(number, 0)  # errors are told in any case
            while sides:
                await _ready(ends, self._loop.add_reader, self._loop.remove_reader)
                for number, events in ends.poll(0):
                    ends.unregister(number)
                    side = sides.pop(number)
                    if events & select.EPOLLERR:
                        self._gone.add(side)
                        await self._last_bytes(side)
                        await self._break_off(side)

    async def _last_bytes(self, gone: socket.socket) -> None:
        while gone not in self._finished and (left := self._moved_at + _LAST_BYTES_S - self._loop.time()) > 0:
            await asyncio.sleep(min(left, _LAST_BYTES_S / 10))

    async def _watch_idleness(self, idle_s: float) -> None:
        while (left := self._moved_at + idle_s - self._loop.time()) > 0:
            await asyncio.sleep(left)
        raise _Ended(IDLE)


async def _delivered(sock: socket.socket) -> None:
    """Wait until the other side has taken all that was sent to it, because a reset throws away what is on its way."""
    loop = asyncio.get_running_loop()
    before, since = -1, loop.time()
    while True:
        try:
            left = int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), "little")
        except OSError:
            return
        if left != before:
            before, since = left, loop.time()
        if not left or loop.time() - since > _LAST_BYTES_S:
            return
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _ready(what: socket.socket | select.epoll, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    """Wait until something can be read from it, or written to it."""
    number, future = what.fileno(), asyncio.get_running_loop().create_future()
    add(number, _wake, future)
    try:
        await future
    finally:
        remove(number)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
