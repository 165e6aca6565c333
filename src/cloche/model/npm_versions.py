"""Versions of npm packages and ranges of them, as Semantic Versioning and npm define them: `1.2.3-rc`, `^4 || 6.x`.

Pre-releases count as what they are in the order of versions.  npm itself leaves most of them out of a range; for a
bound on what may be installed, that would only make the answer harder to understand.
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[int, int, int, tuple[Any, ...]]

_LONGEST = 256  # characters of a version or a range
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"[v=]*(\d{{1,16}})\.(\d{{1,16}})\.(\d{{1,16}})(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?")
_PARTIAL = re.compile(
    rf"(<=|>=|<|>|~>|~|\^|==|=|)v?(\d{{1,16}}|[xX*])(?:\.(\d{{1,16}}|[xX*])(?:\.(\d{{1,16}}|[xX*])"
    rf"(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?)?)?"
)
_FINAL: tuple[Any, ...] = (1,)  # sorts a release after all its pre-releases
_FIRST: tuple[Any, ...] = (0,)  # sorts before all its pre-releases


def version_key(text: str) -> Key | None:
    """What a version sorts by, or None if it is not a version."""
    found = _VERSION.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]), _prerelease(found[4]))


def is_range(text: str) -> bool:
    """Whether a text is a range as npm reads it; commas between comparisons are accepted as well."""
    return _ranges(text) is not None


def is_within(version: str, text: str) -> bool:
    """Whether a version is in a range; a text that is not a version is in none."""
    ranges, key = _ranges(text), version_key(version)
    if ranges is None:
        raise ValueError(f"{text!r:.200} is not a range of versions")
    return key is not None and any(all(_holds(key, *each) for each in one) for one in ranges)


def exact_version(text: str) -> str | None:
    """The one version that a range allows, or None if it allows several."""
    return text.strip().lstrip("=v") if version_key(text) else None


def _holds(key: Key, operator: str, limit: Key) -> bool:
    return key < limit if operator == "<" else key >= limit if operator == ">=" else _compared(key, operator, limit)


def _compared(key: Key, operator: str, limit: Key) -> bool:
    return key <= limit if operator == "<=" else key > limit if operator == ">" else key == limit


@lru_cache(maxsize=1024)
def _ranges(text: str) -> tuple[tuple[tuple[str, Key], ...], ...] | None:
    """A range as alternatives, each a list of comparisons that must all hold."""
    if len(text) > _LONGEST:
        return None
    found = []
    for alternative in text.split("||"):
        comparisons = _alternative(alternative.strip())
        if comparisons is None:
            return None
        found.append(comparisons)
    return tuple(found)


def _alternative(text: str) -> tuple[tuple[str, Key], ...] | None:
    first, dash, last = text.partition(" - ")
    if dash:
        return _between(first.strip(), last.strip())
    words = re.sub(r"([<>=~^])\s+", r"\1", text.replace(",", " ")).split()
    comparisons: list[tuple[str, Key]] = []
    for word in words:
        found = _PARTIAL.fullmatch(word)
        if found is None or not _is_whole(found):
            return None
        comparisons += _comparisons(found)
    return tuple(comparisons)


def _between(first: str, last: str) -> tuple[tuple[str, Key], ...] | None:
    low, high = _PARTIAL.fullmatch(first), _PARTIAL.fullmatch(last)
    if low is None or high is None or low[1] or high[1] or not _is_whole(low) or not _is_whole(high):
        return None
    at_least = [each for each in _comparisons(low) if each[0] == ">="] or _full(low, ">=")
    at_most = _full(high, "<=") or [each for each in _comparisons(high) if each[0] == "<"]
    return (*at_least, *at_most)


def _is_whole(found: re.Match[str]) -> bool:
    """Whether no number follows an `x`: npm reads few of these, and nobody means one."""
    parts = [part for part in (found[2], found[3], found[4]) if part is not None]
    return not any(part.isdecimal() for part in parts[len(_numbers(found)) :])


def _comparisons(found: re.Match[str]) -> list[tuple[str, Key]]:
    operator = found[1].replace("==", "=").replace("~>", "~") or "="
    numbers = _numbers(found)
    if not numbers:  # `*` is every version, and nothing is beyond all
        return [("<", (0, 0, 0, _FIRST))] if operator in "<>" else []
    if len(numbers) == 3 and operator not in ("~", "^"):
        return _full(found, operator)
    major, minor, patch = (*numbers, 0, 0)[:3]
    prerelease = _prerelease(found[5]) if len(numbers) == 3 and found[5] else (_FINAL if len(numbers) == 3 else _FIRST)
    start: Key = (major, minor, patch, prerelease)
    if operator == "^":
        end = _after_caret(numbers)
    elif operator == "~":
        end = _after(numbers[:2])
    else:
        end = _after(numbers)
    if operator == ">":
        return [(">=", end)]
    if operator == ">=":
        return [(">=", start)]
    if operator == "<":
        return [("<", start)]
    return [("<", end)] if operator == "<=" else [(">=", start), ("<", end)]


def _full(found: re.Match[str], operator: str) -> list[tuple[str, Key]]:
    numbers = _numbers(found)
    if len(numbers) != 3:
        return []
    return [(operator, (numbers[0], numbers[1], numbers[2], _prerelease(found[5])))]


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    """The numbers before the first `x`, `*` or missing part."""
    numbers: list[int] = []
    for part in (found[2], found[3], found[4]):
        if part is None or not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _after(numbers: tuple[int, ...]) -> Key:
    """The first version that does not begin with these numbers."""
    major, minor, patch = (*numbers[:-1], numbers[-1] + 1, 0, 0)[:3]
    return (major, minor, patch, _FIRST)


def _after_caret(numbers: tuple[int, ...]) -> Key:
    """A caret keeps the first number that is not zero, and all before it."""
    kept = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    return _after(numbers[: kept + 1])


def _prerelease(text: str | None) -> tuple[Any, ...]:
    if text is None:
        return _FINAL
    parts = ((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in text.split("."))
    return (0, *parts)
