"""Room for connections: this process's descriptors, of which no sandbox may take so many that others get none."""

from __future__ import annotations

import resource
import socket

_BUFFERS = 256 << 10  # bytes, for each direction of a connection that has no more
_EACH = 6  # descriptors of a connection: two sockets, a pipe for a moment, and what watches them


class Room:
    """Counts the connections of all sandboxes."""

    def __init__(self) -> None:
        self.held = 0
        self._most = 0

    def make(self) -> None:
        """Take as many descriptors as this process may have."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._most = most // _EACH

    def is_left(self, mine: int) -> bool:
        """Whether there is room for one more of a sandbox that has some: never more than half of what others leave."""
        return mine < self._most - self.held


def bound_buffers(connection: socket.socket) -> None:
    """Bound what the kernel keeps of a connection while nobody reads; it would be megabytes of all TCP's memory."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFERS)


ROOM = Room()
