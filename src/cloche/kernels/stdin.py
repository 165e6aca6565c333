"""Standard input of a cell: what it was given, or a clear word that there is none; nothing ever waits for a person."""

from __future__ import annotations

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NONE_GIVEN = "this run was given no standard input: pass stdin= to answer input()"

_is_given = False
_input = builtins.input


def install() -> None:
    """Make `input`, `getpass` and debuggers mind it; called once in a kernel."""
    import getpass
    import pdb

    builtins.input = _ask
    getpass.getpass = _ask_secretly
    sys.breakpointhook = _break
    pdb.set_trace = _break
    _open()


def give(fd: int) -> None:
    """A cell begins that was given input."""
    global _is_given
    os.dup2(fd, 0)
    os.close(fd)
    _is_given = True
    _open()


def take_away() -> None:
    """The cell has ended."""
    global _is_given
    if _is_given:
        _is_given = False
        nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, 0)
        os.close(nothing)
        _open()


def _open() -> None:
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]


def _ask(prompt: object = "", /) -> str:
    """Read a line from standard input, after writing the prompt."""
    if not _is_given:
        _refuse()
    return _input(prompt)


def _ask_secretly(prompt: str = "Password: ", stream: Any = None) -> str:
    """Read a line as `input` does: there is no terminal that would show it."""
    if not _is_given:
        _refuse()
    print(prompt, end="", file=stream or sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError("the standard input of this run has ended")
    return line.rstrip("\n")


def _refuse() -> NoReturn:
    raise EOFError(NONE_GIVEN)


def _break(*_: Any, **__: Any) -> None:
    """Stop here and debug, if there is somebody to ask."""
    caller = sys._getframe(1)
    if _is_given:
        import pdb

        pdb.Pdb(nosigint=True).set_trace(caller)
    else:
        print(f"Breakpoint in line {caller.f_lineno} passed by: {NONE_GIVEN} and debuggers.", file=sys.stderr)
