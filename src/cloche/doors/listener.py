"""Accepts connections.  The event loop's own server tries without pause, at full CPU, while descriptors are short."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

log = logging.getLogger("cloche.server")

BACKLOG = 4096  # connections that wait to be accepted, as far as the host allows
_PAUSE_S = 0.1  # after a connection could not be accepted


class Listener:
    """Listens on one socket, for as long as the server takes connections."""

    def __init__(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], make_room: Callable[[], None]
    ) -> None:
        self._socket, self._protocol = listening, protocol
        self._make_room = make_room  # closes a connection that matters less than the next one
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._is_short = self._is_closed = False
        listening.setblocking(False)
        if listening.family != socket.AF_UNIX:
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        listening.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Accept no more."""
        if not self._is_closed:
            self._is_closed = True
            if self._pause is None:
                self._loop.remove_reader(self._socket)
            else:
                self._pause.cancel()
            self._socket.close()

    async def wait_closed(self) -> None:
        """Wait for connections that were accepted and have no protocol yet."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        """Accept one connection; the loop reads from others before it comes back for the next."""
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # the client has left
        except OSError as problem:  # no descriptors, or no memory
            if not self._is_short:
                log.warning("connections have to wait: %s", problem.strerror)
            self._is_short = True
            self._loop.remove_reader(self._socket)
            self._pause = self._loop.call_later(_PAUSE_S, self._resume)
            self._make_room()
            return
        self._is_short = False
        connection.setblocking(False)
        task = self._loop.create_task(self._open(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()  # the client has left
