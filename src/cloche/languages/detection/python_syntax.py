"""Recognizes Python without the table of all languages, whose marks take a tenth of a second to prepare."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 10_000  # characters: the parser may exhaust the stack on a text that is made for it
# Names of every module, and those that Python adds to the built-in ones at an ordinary start.
_OF_MODULES = (
    *("__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__loader__", "__package__", "__annotations__"),
    *("exit", "quit", "copyright", "credits", "license", "help"),
)


def is_plainly_python(code: str) -> bool:
    """Return whether a text is Python, and all names that it uses at its top level are defined.

    `console.log(1)` or `ls` could be Python as well, but only a program that stops at once with a NameError.  The text
    is parsed, but neither compiled nor executed.
    """
    if len(code) > _LONGEST or not code.strip() or code.lstrip("\ufeff \t\r\n").startswith("#!"):
        return False  # the first line names the language
    table = _symbols(code)
    if table is None:
        return False
    import builtins
    from _symtable import DEF_IMPORT, DEF_LOCAL, USE  # type: ignore[import-not-found]

    known = DEF_LOCAL | DEF_IMPORT
    return all(
        flags & known or not flags & USE or name in builtins.__dict__ or name in _OF_MODULES
        for name, flags in table.symbols.items()
    )


def is_valid_python(code: str) -> bool:
    """Return whether a text can be parsed as Python, and is short enough to try."""
    return len(code) <= _LONGEST and _symbols(code) is not None


def _symbols(code: str) -> Any:
    """The symbols of a module with this code; None if it is not valid Python."""
    from _symtable import symtable

    try:
        if "\\" not in code:
            return symtable(code, "<text>", "exec")
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a backslash in a text, which the program itself will report
            return symtable(code, "<text>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError):
        return None
