"""A terminal for tests of the command line."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from typing import Any

from tests.cli.command import CLOCHE


class Terminal:
    """A terminal in which a command of `cloche`, or another program, runs."""

    def __init__(self, *words: str, command: str = "run", program: str = CLOCHE, **streams: Any) -> None:
        self._master, slave = pty.openpty()
        self.resize(101, 33)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        given = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
        environment = {**os.environ, **given.pop("env", {})}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, program, command, *words], start_new_session=True, env=environment, **given
        )
        self.output = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> Terminal:
        """Wait for some output."""
        deadline = time.monotonic() + 60
        while text not in self.output:
            assert select.select([self._master], [], [], max(0, deadline - time.monotonic()))[0], self.output
            self.output += os.read(self._master, 65536)
        return self

    def type(self, keys: bytes) -> Terminal:
        os.write(self._master, keys)
        return self

    def errors(self) -> bytes:
        """Read standard error, which is a pipe."""
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            data: bytes = stream.read()
        return data

    def end(self) -> int:
        """Wait for the end; the terminal must be as before."""
        code = self._process.wait(60)
        while select.select([self._master], [], [], 0)[0]:
            self.output += os.read(self._master, 65536)
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self._master)
        os.close(self.slave)
        return code


# The terminal becomes the controlling one of the new session.
_BEGIN = "import fcntl, os, sys, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
