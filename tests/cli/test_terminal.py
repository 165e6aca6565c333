"""`cloche run` from a terminal gives the program a terminal; pipes stay pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Terminal
from tests.languages.toolchains import needs

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")
WHICH = "import os, sys\nprint([os.isatty(fd) for fd in (0, 1, 2)], 'end')"

pytestmark = pytest.mark.usefixtures("jail")


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
