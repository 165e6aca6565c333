"""`cloche run` from a terminal gives the program a terminal; pipes stay pipes."""

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
from pathlib import Path
from typing import Any

import pytest
from tests.languages.toolchains import needs

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")
WHICH = "import os, sys\nprint([os.isatty(fd) for fd in (0, 1, 2)], 'end')"

pytestmark = pytest.mark.usefixtures("jail")


class Terminal:
    """A terminal in which `cloche run` runs."""

    def __init__(self, *words: str, **streams: Any) -> None:
        self._master, slave = pty.openpty()
        self.resize(101, 33)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        given = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
        environment = {**os.environ, **given.pop("env", {})}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, CLOCHE, "run", *words], start_new_session=True, env=environment, **given
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
_BEGIN = "import fcntl, os, sys, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def test_a_program_sees_a_terminal_of_the_same_size() -> None:
    terminal = Terminal("-c", f"{WHICH}\nprint(tuple(os.get_terminal_size()), os.environ['TERM'])").until(b"256color")
    assert terminal.end() == 0
    assert terminal.output == b"[True, True, True] end\r\n(101, 33) xterm-256color\r\n"


def test_keys_reach_the_program_as_they_are_typed() -> None:
    code = "name = input('name? ')\nprint('hello', name)\nimport sys\nprint(repr(sys.stdin.read()))"
    terminal = Terminal("-c", code).until(b"name? ").type(b"Bob\r").until(b"hello Bob")
    assert terminal.type(b"ab\r\x04").until(b"'ab\\n'").end() == 0


def test_ctrl_c_interrupts_the_program_and_a_new_size_reaches_it() -> None:
    code = """
import os, signal
wanted = {signal.SIGWINCH, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("begun")
while signal.sigwait(wanted) != signal.SIGINT:
    print("size", *os.get_terminal_size())
print("interrupted")
"""
    terminal = Terminal("-c", code).until(b"begun")
    terminal.resize(120, 50)
    assert terminal.until(b"size 120 50").type(b"\x03").until(b"interrupted").end() == 0


def test_what_is_redirected_stays_a_pipe() -> None:
    both = Terminal("-c", f"{WHICH}\nprint('apart', file=sys.stderr)", stderr=subprocess.PIPE).until(b"end")
    assert both.errors() == b"apart\n"
    assert (both.end(), both.output) == (0, b"[True, True, False] end\r\n")
    with open(os.devnull) as nothing:
        fed = Terminal("-c", WHICH, stdin=nothing).until(b"end")
        assert (fed.end(), fed.output) == (0, b"[False, True, True] end\r\n")
    piped = subprocess.run([CLOCHE, "run", "-c", WHICH], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert piped.stdout == b"[False, False, False] end\n"


def test_options_decide_otherwise() -> None:
    none = Terminal("--no-tty", "-c", WHICH).until(b"end")
    assert (none.end(), none.output) == (0, b"[False, False, False] end\r\n")
    command = [CLOCHE, "run", "--tty", "-c", WHICH]
    forced = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert forced.stdout == b"[True, True, True] end\r\n"


def test_errors_are_judged_as_without_a_terminal() -> None:
    terminal = Terminal("-c", "bytearray(1 << 40)").until(b"MemoryError\r\n")
    assert terminal.until(b"memory: ").end() == 137


def test_other_languages_get_one_too() -> None:
    needs("bash")
    code = 'tty; test -t 2 && stty size; read x; echo "<$x>"'
    terminal = Terminal("-l", "bash", "-c", code).until(b"33 101").type(b"q\r").until(b"<q>")
    assert (terminal.end(), terminal.output[:9]) == (0, b"/dev/pts/")


def test_so_does_a_program_on_a_server(served: Any) -> None:
    there = {"CLOCHE_URL": served.url, "CLOCHE_API_KEY": served.key}
    terminal = Terminal("-c", f"{WHICH}\nprint(tuple(os.get_terminal_size()))\ninput()", env=there).until(b"(101, 33)")
    assert terminal.type(b"\r").end() == 0
    assert terminal.output.startswith(b"[True, True, True] end\r\n")
