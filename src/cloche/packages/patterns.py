"""Patterns of package names, as an operator writes them: `requests`, `django-*`, `npm:@types/*`, `python:numpy`.

`a & b` covers the names that both cover.  Nobody has to write it: it is how two lists become the list of what both
allow, exactly.  The pattern `none` covers nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cloche.errors import InvalidRun
from cloche.model.packages import JAVASCRIPT, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOTHING = "none"
_LONGEST = 250  # characters of one part
_PREFIXES = {"npm": "npm", "javascript": "npm", "python": "python", "pypi": "python"}
_PLAIN = re.compile(r"(@?[a-z0-9*][a-z0-9*._~-]*/)?[a-z0-9*][a-z0-9*._~-]*")
_HOW = "Write a name, a name with *, or either after npm: or python:, as in npm:@types/*."


def patterns_of(rule: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """A list of patterns in one spelling, each once; InvalidRun names the rule."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if listed is None or not all(isinstance(each, str) for each in listed):
        raise InvalidRun(f"{rule} is a list of package names, not {value!r:.100}.", hint=_HOW)
    found = tuple(dict.fromkeys(_pattern(rule, each) for each in listed))
    if NOTHING in found and len(found) > 1:
        raise InvalidRun(f'{rule} has "{NOTHING}" among other names.', hint="Write it alone, or leave it out.")
    return found


def is_covered(ecosystem: str, name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns covers a name."""
    return any(_covers_name(pattern, ecosystem, name) for pattern in patterns)


def is_named(ecosystem: str, name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this very name, without a `*`."""
    return any("*" not in pattern and _covers_name(pattern, ecosystem, name) for pattern in patterns)


def common(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Patterns for what both lists cover; `none` if they have nothing in common."""
    # Most lists have plain names, of which only those in one spelling can meet.
    names: dict[str, list[str]] = {}
    wide: list[str] = []
    for other in second:
        (wide if _is_wide(other) else names.setdefault(_spelled(other.rpartition(":")[2]), [])).append(other)
    found: dict[str, None] = {}
    for one in first:
        others = second if _is_wide(one) else (*names.get(_spelled(one.rpartition(":")[2]), ()), *wide)
        found.update((both, None) for other in others if (both := _both(one, other)))
    return tuple(found) or (NOTHING,)


def _is_wide(pattern: str) -> bool:
    return "*" in pattern or "&" in pattern


def _both(one: str, other: str) -> str:
    if NOTHING in (one, other) or _never_meet(one, other):
        return ""
    if _includes(other, one):
        return one
    if _includes(one, other):
        return other
    return " & ".join(sorted({*one.split(" & "), *other.split(" & ")}))


def _pattern(rule: str, text: str) -> str:
    return " & ".join(sorted(_part(rule, part, text) for part in text.split("&")))


def _part(rule: str, part: str, text: str) -> str:
    if len(part) > _LONGEST:
        raise InvalidRun(f"{rule} has a name of more than {_LONGEST} characters: {part[:40]!r}….", hint=_HOW)
    prefix, colon, name = part.strip().lower().rpartition(":")
    if (colon and prefix not in _PREFIXES) or not _PLAIN.fullmatch(name):
        raise InvalidRun(f"{rule}: {text!r} is not the name of a package.", hint=_HOW)
    return f"{_PREFIXES[prefix]}:{name}" if colon else name


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[tuple[str, str], ...]:
    """A pattern's parts, each with its ecosystem: "npm", "python", or "" for both."""
    split = (part.rpartition(":") for part in pattern.split(" & "))
    return tuple((prefix, name) for prefix, _, name in split)


def _covers_name(pattern: str, ecosystem: str, name: str) -> bool:
    return pattern != NOTHING and all(_part_covers(*part, ecosystem, name) for part in _parts(pattern))


def _part_covers(prefix: str, glob: str, ecosystem: str, name: str) -> bool:
    if prefix and (prefix == "npm") != (ecosystem == JAVASCRIPT):
        return False
    plain = _spelled(glob) if ecosystem == PYTHON else glob
    lower = name.lower()
    return plain == lower if "*" not in plain else _glob(plain).fullmatch(lower) is not None


def _spelled(glob: str) -> str:
    """A pattern in the spelling of Python's names."""
    return re.sub(r"[-_.]+", "-", glob)


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", pattern).split("*"))), re.DOTALL)


def _includes(wide: str, narrow: str) -> bool:
    """Whether a pattern surely covers every name that another covers."""
    return all(any(_part_includes(*one, *other) for other in _parts(narrow)) for one in _parts(wide))


def _part_includes(wide_prefix: str, wide: str, prefix: str, narrow: str) -> bool:
    # A `*` of the narrower pattern is matched as a letter here, which only a `*` of the wider one can cover.  Both
    # spellings count, for npm and for Python.
    spellings = ((wide, narrow), (_spelled(wide), _spelled(narrow)))
    return wide_prefix in ("", prefix) and all(_glob(one).fullmatch(other) for one, other in spellings)


def _never_meet(one: str, other: str) -> bool:
    """Whether two patterns surely cover no name together."""
    parts = (*_parts(one), *_parts(other))
    if {"npm", "python"} <= {prefix for prefix, _ in parts}:
        return True
    # Names that differ even in Python's spelling are two names.
    names = {_spelled(name) for _, name in parts if "*" not in name}
    return len(names) > 1 or any(_misses(glob, name) for _, glob in parts for _, name in parts if "*" not in name)


def _misses(glob: str, name: str) -> bool:
    """Whether a pattern covers a name in no spelling."""
    return not (_glob(glob).fullmatch(name) or _glob(_spelled(glob)).fullmatch(_spelled(name)))
