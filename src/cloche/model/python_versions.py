"""Versions of Python packages and bounds on them, as PEP 440 defines both: `1.0rc1`, `>=1.26,<3`, `==2.*`."""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 200  # characters of a version or a bound
_VERSION = re.compile(
    r"""v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>\d+)?)?
    (?P<post>-(?P<bare_post>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d+)?)?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d+)?)?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_CLAUSE = re.compile(r"\s*(===|==|!=|<=|>=|~=|<|>)\s*([^\s,]+)\s*", re.ASCII)
_SHORT = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


class _Version:
    """One version; `key` sorts as PEP 440 demands."""

    def __init__(self, found: re.Match[str]) -> None:
        part = found.groupdict()
        self.epoch = int(part["epoch"] or 0)
        self.release = tuple(map(int, part["release"].split(".")))
        pre = part["pre"] and part["pre"].lower()
        self.pre = (_SHORT.get(pre, pre), int(part["pre_number"] or 0)) if pre else None
        self.post = int(part["bare_post"] or part["post_number"] or 0) if part["post"] else None
        self.dev = int(part["dev_number"] or 0) if part["dev"] else None
        self.local = _local(part["local"])

    @property
    def is_prerelease(self) -> bool:
        return self.pre is not None or self.dev is not None

    @property
    def base(self) -> tuple[Any, ...]:
        return (self.epoch, _without_zeros(self.release))

    @property
    def public(self) -> tuple[Any, ...]:
        """The sorting key without the local part."""
        if self.pre is not None:
            pre: tuple[Any, ...] = (0, *self.pre)
        else:  # 1.0.dev1 is earlier than 1.0a1, and 1.0 is later
            pre = (-1,) if self.post is None and self.dev is not None else (1,)
        post = -1 if self.post is None else self.post
        return (*self.base, pre, post, (1, 0) if self.dev is None else (0, self.dev))

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.public, self.local)

    def starts_with(self, epoch: int, release: tuple[int, ...]) -> bool:
        padded = self.release + (0,) * (len(release) - len(self.release))
        return self.epoch == epoch and padded[: len(release)] == release


def version_key(text: str) -> tuple[Any, ...] | None:
    """What a version sorts by, or None if PEP 440 does not know such a version."""
    found = _parsed(text)
    return None if found is None else found.key


def is_bound(text: str) -> bool:
    """Whether a text is a list of comparisons such as `>=1.26,<3`."""
    return _clauses(text) is not None


def is_within(version: str, bound: str) -> bool:
    """Whether a version satisfies every comparison of a bound; a version that cannot be read satisfies none."""
    clauses = _clauses(bound)
    if clauses is None:
        raise ValueError(f"{bound!r:.200} is not a bound on versions")
    return all(_holds(version, operator, operand) for operator, operand in clauses)


def exact_version(bound: str) -> str | None:
    """The one version that a bound allows, or None if it allows several."""
    clauses = _clauses(bound) or ()
    if len(clauses) != 1 or clauses[0][0] not in ("==", "===") or clauses[0][1].endswith(".*"):
        return None
    return clauses[0][1]


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Version | None:
    found = _VERSION.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    return None if found is None else _Version(found)


@lru_cache(maxsize=1024)
def _clauses(text: str) -> tuple[tuple[str, str], ...] | None:
    found = [_CLAUSE.fullmatch(clause) for clause in text.split(",")] if len(text) <= _LONGEST else [None]
    pairs = tuple((each[1], each[2]) for each in found if each is not None)
    return pairs if len(pairs) == len(found) and all(_is_clause(*pair) for pair in pairs) else None


def _is_clause(operator: str, operand: str) -> bool:
    if operand.endswith(".*"):
        return operator in ("==", "!=") and re.fullmatch(r"v?(\d+!)?\d+(\.\d+)*", operand[:-2], re.ASCII) is not None
    version = _parsed(operand)
    if version is None:
        return False
    if operator == "~=":
        return len(version.release) > 1 and not version.local
    return operator in ("==", "!=", "===") or not version.local


def _holds(text: str, operator: str, operand: str) -> bool:
    if operator == "===":
        return text.strip().lower() == operand.lower()
    version = _parsed(text)
    if version is None:
        return False
    if operand.endswith(".*"):
        prefix = _parsed(operand[:-2])
        assert prefix is not None
        return version.starts_with(prefix.epoch, prefix.release) == (operator == "==")
    limit = _parsed(operand)
    assert limit is not None
    if operator in ("==", "!="):
        is_same = version.key == limit.key if limit.local else version.public == limit.public
        return is_same == (operator == "==")
    if operator == "~=":
        return version.public >= limit.public and version.starts_with(limit.epoch, limit.release[:-1])
    if operator in ("<=", ">="):
        return version.public <= limit.public if operator == "<=" else version.public >= limit.public
    is_same = version.base == limit.base
    if operator == "<":  # `<3` leaves 3.0rc1 out, too
        is_of_limit = limit.post is None or (version.post == limit.post and version.pre is None)
        is_before = version.is_prerelease and not limit.is_prerelease and is_same and is_of_limit
        return version.key < limit.key and not is_before
    # `>3` leaves 3.0.post1 out.
    is_after = version.post is not None and limit.post is None and limit.dev is None and version.pre == limit.pre
    return version.public > limit.public and not (is_after and is_same)


def _without_zeros(release: tuple[int, ...]) -> tuple[int, ...]:
    end = len(release)
    while end > 1 and release[end - 1] == 0:
        end -= 1
    return release[:end]


def _local(text: str | None) -> tuple[tuple[int, int, str], ...]:
    parts = re.split(r"[-_.]", text.lower()) if text else []
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)
