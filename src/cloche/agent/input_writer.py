"""Writes data from the engine to a pipe or socket, no faster than the other end reads it."""

from __future__ import annotations

import os

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.agent.main import Agent


class InputWriter:
    """The writing end of a standard input or of a connection."""

    def __init__(self, agent: Agent, operation: int, fd: int, at_end: Callable[[], None] | None = None) -> None:
        self.fd: int | None = fd
        self.within_line = False
        self._agent, self._operation = agent, operation
        self._at_end = at_end or self.close
        self._pending = bytearray()
        self._waiting = self._ended = False
        os.set_blocking(fd, False)

    @property
    def is_empty(self) -> bool:
        """Whether all data so far is in the pipe, and no end follows it."""
        return not self._pending and not self._ended

    def write(self, data: bytes) -> None:
        """Write more data, now or when the other end has read enough."""
        self._pending += data
        self.within_line = data[-1:] != b"\n"
        self._push()

    def end(self) -> None:
        """Close the descriptor once all data is written."""
        self._ended = True
        self._push()

    def close(self) -> None:
        """Close the descriptor, so that the reader sees the end."""
        if self.fd is not None:
            self._agent.unwatch(self.fd)
            os.close(self.fd)
            self.fd = None

    def end_later(self) -> None:
        """Signal the end again when the descriptor accepts data: it could not be signalled now."""
        self._ended = True
        self._watch_writable(True)

    def _push(self) -> None:
        if self.fd is None:
            self._acknowledge(len(self._pending))
            return
        taken = 0
        try:
            while taken < len(self._pending):
                taken += os.write(self.fd, memoryview(self._pending)[taken : taken + frames.CHUNK])
        except BlockingIOError:
            pass
        except OSError:  # the reader is gone
            self._acknowledge(len(self._pending))
            self.close()
            return
        self._acknowledge(taken)
        self._watch_writable(bool(self._pending))
        if self._ended and not self._pending:
            self._ended = False
            self._at_end()

    def _watch_writable(self, room: bool) -> None:
        if self.fd is None or room == self._waiting:
            return
        self._waiting = room
        if room:
            self._agent.watch_writable(self.fd, self._push)
        else:
            self._agent.unwatch(self.fd)

    def _acknowledge(self, count: int) -> None:
        if count:
            del self._pending[:count]
            self._agent.send(frames.credit(self._operation, count))
