"""Decides by the words in a program's source whether its interpreter may start without the parts it does not need.

Every word counts, even in strings, except in lines that are comments: a part whose name does not occur cannot be called
by name.  Each definition adds the words that can call something by a name put together at run time; a program that
contains one of these starts with everything.
"""

from __future__ import annotations

_read: dict[str, frozenset[str]] = {}


def mentions(text: str, words: frozenset[str], pattern: str = r"[^\W\d]\w*") -> bool:
    from re import findall

    return not words.isdisjoint(findall(pattern, text))


def without_comments(text: str, *marks: str) -> str:
    """Drop the lines that are comments; lines that start with `#{` or `#[` are code in some languages."""
    return "\n".join(
        line
        for line in text.split("\n")
        if not (start := line.lstrip()).startswith(marks) or start.startswith(("#{", "#[", "#!"))
    )


def names_in(path: str) -> frozenset[str]:
    """Return the names in a file, one per line, and the prefixes that programs may complete themselves (`ctype_`)."""
    if path not in _read:
        try:
            with open(path, encoding="utf-8") as file:
                names = file.read().split()
        except OSError:
            names = []  # the language was not prepared
        begun = {name[: place + 1] for name in names for place, letter in enumerate(name) if letter == "_" and place}
        _read[path] = frozenset(names) | begun
    return _read[path]
