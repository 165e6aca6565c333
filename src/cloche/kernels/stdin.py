"""Standard input of a cell: the given input, or a clear error if there is none.  Nothing ever waits for a person."""

from __future__ import annotations

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NONE_GIVEN = "this run has no standard input to answer input() with"

_is_given = False
_input = builtins.input


def install() -> None:
    """Make `input`, `getpass` and debuggers use the cell's input; called once in a kernel."""
    import getpass
    import pdb

    builtins.input = _ask
    getpass.getpass = _ask_secretly
    sys.breakpointhook = _break
    pdb.set_trace = _break
    _open()


def give(fd: int) -> None:
    """Start a cell that has input."""
    global _is_given
    os.dup2(fd, 0)
    os.close(fd)
    _is_given = True
    _open()


def end() -> None:
    """End the cell's input."""
    global _is_given
    if _is_given:
        _is_given = False
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, 0)
        os.close(null)
        _open()


def _open() -> None:
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]


def _ask(prompt: object = "", /) -> str:
    """Read a line from standard input, after writing the prompt."""
    if not _is_given:
        _refuse()
    return _input(prompt)


def _ask_secretly(prompt: str = "Password: ", stream: Any = None) -> str:
    """Read a line as `input` does: no terminal would show it."""
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
    """Start the debugger if the cell has input to answer it."""
    caller = sys._getframe(1)
    if _is_given:
        import pdb

        pdb.Pdb(nosigint=True).set_trace(caller)
    else:
        print(
            f"The breakpoint in line {caller.f_lineno} was skipped: "
            "this run has no standard input to answer the debugger with.",
            file=sys.stderr,
        )
