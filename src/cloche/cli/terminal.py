"""Connects the caller's terminal with that of a program: `cloche run` from a terminal gives the program one, too."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.sandbox.processes import Process

_ALL = (0, 1, 2)
_USUAL = (80, 24)


class CallersTerminal:
    """The terminal that `cloche run` was started from, and which of the program's streams use one."""

    def __init__(self, streams: tuple[int, ...]) -> None:
        self.streams = streams
        self._saved: Any = None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:
            return _USUAL
        return (columns, rows) if 0 < columns <= 10_000 and 0 < rows <= 10_000 else _USUAL

    def begin(self) -> None:
        """Pass every key on to the program as it is typed: its own terminal echoes them, and knows Ctrl-C and Ctrl-D.

        Called when the program has started: until then Ctrl-C is ours.
        """
        if 0 not in self.streams or self._saved is not None or not os.isatty(0):
            return
        import termios
        from tty import setraw

        try:
            self._saved = termios.tcgetattr(0)
            setraw(0, termios.TCSANOW)
        except termios.error:
            self._saved = None

    def end(self) -> None:
        """Set the terminal as it was."""
        if self._saved is not None:
            import termios

            sys.stdout.flush()
            saved, self._saved = self._saved, None
            termios.tcsetattr(0, termios.TCSADRAIN, saved)

    def shown(self, data: bytes) -> bytes:
        """Return the program's output for the caller's terminal, which itself ends lines unless keys are passed on."""
        return data if self._saved is not None or not os.isatty(1) else data.replace(b"\r\n", b"\n")

    def resized(self, process: Process) -> None:
        """Give the program's terminal the size of the caller's."""
        process.resize(*self.size)


def callers_terminal(is_wanted: bool, is_whole: bool) -> CallersTerminal | None:
    """Return the terminal; None if the program gets pipes only.

    Without `is_wanted`, standard output decides: a pipe or a file stays one.  A server can give a program a terminal
    for all of its streams or for none (`is_whole`).
    """
    if is_wanted:
        return CallersTerminal(_ALL)
    if not os.isatty(1):
        return None
    streams = tuple(fd for fd in _ALL if fd == 1 or (os.isatty(fd) and (fd == 2 or _is_in_front())))
    return CallersTerminal(streams) if streams == _ALL or not is_whole else None


def _is_in_front() -> bool:
    """Is this process in the foreground?  In the background it must not change the terminal."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
