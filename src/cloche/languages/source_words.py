"""Programs that use so little of their language that it may start with less: told by the words in their source.

Every word counts but for lines of comments, also those in strings: what is not mentioned cannot be called by its name.
Definitions add the words that can call something by a name which is put together, and then nothing is left out.
"""

from __future__ import annotations

_read: dict[str, frozenset[str]] = {}


def mentions(text: str, words: frozenset[str], pattern: str = r"[^\W\d]\w*") -> bool:
    """Is one of these words in the text?"""
    from re import findall

    return not words.isdisjoint(findall(pattern, text))


def without_comments(text: str, *marks: str) -> str:
    """The text without lines that are comments; `#{…}` and `#[…]` are none in some languages."""
    return "\n".join(
        line
        for line in text.split("\n")
        if not (start := line.lstrip()).startswith(marks) or start.startswith(("#{", "#[", "#!"))
    )


def names_in(path: str) -> frozenset[str]:
    """The names in a file, one a line, and the beginnings that some are put together from (`ctype_`)."""
    if path not in _read:
        try:
            with open(path, encoding="utf-8") as file:
                names = file.read().split()
        except OSError:
            names = []  # nothing was prepared
        begun = {name[: place + 1] for name in names for place, letter in enumerate(name) if letter == "_" and place}
        _read[path] = frozenset(names) | begun
    return _read[path]
