"""Carries bytes from one socket to another: in a pipe, where they never come into this process, or in memory.

A pipe is needed only while bytes are on their way, so connections that are silent hold none, and a few serve many.
"""

from __future__ import annotations

import errno
import fcntl
import os
from _socket import MSG_NOSIGNAL, socket

_LARGE = 1 << 20  # carries three quarters of what a program's own connection does; the usual 64 KiB carry less
_MOST_LARGE = 16  # an ordinary user may have 64 of that size; past that, the kernel makes all new ones tiny
_MOST_SPARE = 4
_IN_MEMORY = 64 << 10
_CANNOT_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EAGAIN)
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class Pipe:
    """A pipe of this process."""

    inside = 0  # bytes on their way

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        if len(_lent) < _MOST_LARGE:
            try:
                fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _LARGE)
            except OSError:
                pass  # the user has used up the memory for pipes; small ones work, too

    def fill(self, source: socket, size: int) -> int:
        self.inside = os.splice(source.fileno(), self._writer, size, flags=_FLAGS)
        return self.inside

    def drain(self, target: socket) -> int:
        moved = os.splice(self._reader, target.fileno(), self.inside, flags=_FLAGS)
        self.inside -= moved
        return moved

    def give_back(self) -> None:
        """Keep it for others; a pipe that still has somebody's bytes in it is closed."""
        _lent.discard(self)
        if self.inside == 0 and len(_spare) < _MOST_SPARE:
            _spare.append(self)
        else:
            self.close()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Copy:
    """Does the same without a pipe."""

    inside = 0

    def fill(self, source: socket, size: int) -> int:
        self._data = memoryview(source.recv(min(size, _IN_MEMORY)))
        self.inside = len(self._data)
        return self.inside

    def drain(self, target: socket) -> int:
        moved = target.send(self._data[-self.inside :], MSG_NOSIGNAL)
        self.inside -= moved
        return moved

    def give_back(self) -> None:
        self._data = memoryview(b"")


_spare: list[Pipe] = []
_lent: set[Pipe] = set()


def filled(source: socket, size: int) -> Pipe | Copy | None:
    """Up to `size` bytes that the source has, on their way; None at its end; BlockingIOError when it has none now.

    Whoever gets it gives it back.
    """
    carrier: Pipe | Copy
    try:
        carrier = pipe = _spare.pop() if _spare else Pipe()
        _lent.add(pipe)
    except OSError:  # the process has no descriptor left
        carrier = Copy()
    try:
        if carrier.fill(source, size):
            return carrier
    except OSError as failed:
        carrier.give_back()
        if failed.errno not in _CANNOT_SPLICE or isinstance(carrier, Copy):
            raise
        # Also where nothing has come: `splice` sees nothing from an urgent byte on, and would be asked for ever.
        carrier = Copy()
        if carrier.fill(source, size):
            return carrier
        return None
    carrier.give_back()
    return None
