"""Decides whether a package's licence is allowed.

A rule is an SPDX id (`MIT`), a pattern (`BSD-*`), or either after `not:`, which denies it.  With at least one rule that
allows, everything else is denied.  `GPL-3.0` also stands for `GPL-3.0-only` and `GPL-3.0-or-later`.
"""

from __future__ import annotations

import re

from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NOT = "not:"
_NOTHING = "none"
_RULE = re.compile(r"(not:)?[A-Za-z0-9.*+][A-Za-z0-9.*+ -]{0,99}")
_LONGEST, _DEEPEST = 500, 20  # characters of an expression, and brackets in brackets
_WORD = re.compile(r"\s*(\(|\)|[A-Za-z0-9.+-]+)")
_HOW = "Write SPDX ids such as MIT or BSD-*, and not:GPL-3.0 for one that is denied."
# What metadata says instead of an SPDX id, in lower case.
_MEANT = {
    "mit license": "MIT",
    "the mit license": "MIT",
    "the mit license (mit)": "MIT",
    "expat": "MIT",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD",
    "new bsd": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "bsd 2-clause": "BSD-2-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "python software foundation license": "PSF-2.0",
    "psf": "PSF-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl 2.0": "MPL-2.0",
    "gplv2": "GPL-2.0",
    "gplv3": "GPL-3.0",
    "gnu gpl": "GPL-3.0",
    "gnu general public license v2 (gplv2)": "GPL-2.0",
    "gnu general public license v3 (gplv3)": "GPL-3.0",
    "gnu general public license v3 or later (gplv3+)": "GPL-3.0-or-later",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0",
    "gnu affero general public license v3": "AGPL-3.0",
    "the unlicense (unlicense)": "Unlicense",
}


def licence_rules(rule: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """A list of rules in one spelling, each once; InvalidRun names the setting."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if listed is None or not all(isinstance(each, str) for each in listed):
        raise InvalidRun(f"{rule} is a list of licences, not {value!r:.100}.", hint=_HOW)
    for each in listed:
        if not all(_RULE.fullmatch(part) for part in each.split(" & ")):
            raise InvalidRun(f"{rule}: {each!r:.100} is not the id of a licence.", hint=_HOW)
    return tuple(dict.fromkeys(listed))


def is_allowed(licence: str, rules: tuple[str, ...]) -> bool | None:
    """Whether the rules allow a licence; None if it is unknown and no rule says what is allowed."""
    if not rules:
        return True
    allowed = [rule for rule in rules if not rule.startswith(_NOT)]
    denied = [rule.removeprefix(_NOT) for rule in rules if rule.startswith(_NOT)]

    def is_fine(name: str) -> bool:
        return not _is_any(name, denied) and (not allowed or _is_any(name, allowed))

    text = licence.rpartition("::")[2].strip()[:_LONGEST]
    meant = _MEANT.get(text.lower(), text)
    verdict = _Expression(meant, is_fine).verdict() if meant else None
    if verdict is not None:
        return verdict
    # Words that are no expression count as one name, which an operator may allow or deny as it stands.
    if meant and (_is_any(meant, denied) or _is_any(meant, allowed)):
        return is_fine(meant)
    return False if allowed else None


def common_rules(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Rules that allow what both lists allow."""
    denied = dict.fromkeys(rule for rule in (*first, *second) if rule.startswith(_NOT))
    allowed, others = ([rule for rule in each if not rule.startswith(_NOT)] for each in (first, second))
    if allowed and others:
        both = dict.fromkeys(one for each in allowed for other in others if (one := _both(each, other)))
        return (*(both or (_NOTHING,)), *denied)
    return (*allowed, *others, *denied)


def _both(one: str, other: str) -> str:
    if _NOTHING in (one, other):
        return ""
    if one == other or _is(one, other):
        return one
    if _is(other, one):
        return other
    if "*" not in one or "*" not in other:
        return ""
    return " & ".join(sorted({*one.split(" & "), *other.split(" & ")}))


def _is_any(name: str, patterns: Iterable[str]) -> bool:
    return any(pattern != _NOTHING and _is(name, pattern) for pattern in patterns)


def _is(name: str, pattern: str) -> bool:
    """Whether a pattern covers an id; where a rule has several parts, all of them must."""
    base = re.sub(r"(-only|-or-later|\+)$", "", name)
    return all(any(_glob(part).fullmatch(each) for each in (name, base)) for part in pattern.split(" & "))


def _glob(pattern: str) -> re.Pattern[str]:
    parts = re.sub(r"\*+", "*", pattern).split("*")
    return re.compile(".*".join(map(re.escape, parts)), re.IGNORECASE)


class _Expression:
    """An SPDX expression such as `MIT OR (Apache-2.0 AND BSD-3-Clause)`, decided id by id."""

    def __init__(self, text: str, is_fine: Callable[[str], bool]) -> None:
        self._is_fine = is_fine
        self._words: list[str] = []
        place, text = 0, text.strip()
        while place < len(text):
            found = _WORD.match(text, place)
            if found is None:
                self._words = []
                break
            self._words.append(found[1])
            place = found.end()
        self._place = 0

    def verdict(self) -> bool | None:
        """Whether the licence is fine, or None if the text is not an expression."""
        try:
            found = self._either(0)
        except ValueError:
            return None
        return found if self._place == len(self._words) else None

    def _next(self) -> str:
        return self._words[self._place] if self._place < len(self._words) else ""

    def _takes(self, word: str) -> bool:
        if self._next().upper() != word:
            return False
        self._place += 1
        return True

    def _either(self, depth: int) -> bool:
        found = self._all(depth)
        while self._takes("OR"):
            found = self._all(depth) or found
        return found

    def _all(self, depth: int) -> bool:
        found = self._one(depth)
        while self._takes("AND"):
            found = self._one(depth) and found
        return found

    def _one(self, depth: int) -> bool:
        if self._takes("("):
            found = self._either(depth + 1) if depth < _DEEPEST else False
            if not self._takes(")"):
                raise ValueError("a bracket is not closed")
            return found
        name = self._next()
        if not name or name.upper() in (")", "AND", "OR", "WITH"):
            raise ValueError("the id of a licence is missing")
        self._place += 1
        if self._takes("WITH"):  # an exception only ever permits more
            self._place += 1
        return self._is_fine(name)
