"""Reads one requirement of an npm package: `lodash`, `lodash@4`, `@types/node@>=20 <23`, `typescript@next`."""

from __future__ import annotations

import re

from cloche.errors import InvalidRun
from cloche.model.npm_versions import exact_version, is_range
from cloche.model.packages import JAVASCRIPT, Requirement
from cloche.model.requirement_text import split_hashes

_PART = r"[A-Za-z0-9][A-Za-z0-9._~-]*"
_NAME = re.compile(rf"@{_PART}/{_PART}|{_PART}")
_MAX_NAME = 214  # characters, says npm
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_HOW = "Write a name and, if you like, versions: lodash, lodash@4, date-fns@^3.6.0, @types/node@20."
_SOURCES = re.compile(r"(git|github|gitlab|bitbucket|gist|https?|file|link|ssh|workspace|patch)(\+\w+)?:", re.I)


def npm_requirement(text: str) -> Requirement:
    """One requirement that a person wrote; InvalidRun says what is wrong with it."""
    bare, hashes = split_hashes(text, JAVASCRIPT)
    if bare.startswith("-"):
        raise InvalidRun(
            f"The option {bare.split()[0]!r:.100} cannot be used among packages.",
            hint="Leave the option out; packages are named one by one.",
        )
    found = _NAME.match(bare)
    name = found[0] if found else ""
    rest = bare[len(name) :]
    _check_kind(bare, rest)
    if not name or len(name) > _MAX_NAME or (rest and not rest.startswith("@")):
        raise _unreadable(bare, name, rest)
    bound = " ".join(rest[1:].split())
    if rest and not bound:
        raise InvalidRun(f"{bare!r:.100} ends with @ and no version.", hint=_HOW)
    if bound and not is_range(bound) and not _TAG.fullmatch(bound):
        raise InvalidRun(f"{bound!r:.100} in {bare!r:.100} is not a range of versions that npm knows.", hint=_HOW)
    exact = exact_version(bound) if bound else None
    canonical = f"{name}@{exact or bound}" if bound else name
    return Requirement(JAVASCRIPT, name, canonical, exact is not None, hashes)


def _check_kind(bare: str, rest: str) -> None:
    """Refuse what names no package of the registry: a policy decides about names, and could not decide about those."""
    is_path = bare.startswith((".", "/", "~/", "\\")) or re.search(r"\.(tgz|tar|tar\.gz)$", bare)
    target = rest[1:].strip() if rest.startswith("@") else ""
    is_elsewhere = _SOURCES.match(bare) or _SOURCES.match(target) or "://" in bare
    if is_path or is_elsewhere or "/" in rest:
        raise InvalidRun(
            f"{bare!r:.100} is {'a path' if is_path else 'an address'}, and packages come from the registry alone.",
            hint=f"{_HOW} Other code can be copied into the sandbox as files.",
        )
    if target.startswith("npm:"):
        raise InvalidRun(f"{bare!r:.100} gives a package another name.", hint=f"Write {target[4:]} instead.")
    if bare.startswith(("npm:", "python:", "pypi:")):
        kind, _, plain = bare.partition(":")
        language = "javascript" if kind == "npm" else "python"
        raise InvalidRun(
            f"{bare!r:.100} is not the name of an npm package.", hint=f'Write packages={{"{language}": ["{plain}"]}}.'
        )


def _unreadable(bare: str, name: str, rest: str) -> InvalidRun:
    pip = re.fullmatch(r"\s*(==|>=|<=|~=|<|>)\s*(\S+)", rest)
    if name and pip:
        bound = {"==": "", "~=": "~"}.get(pip[1], pip[1]) + pip[2]
        return InvalidRun(f"{bare!r:.100} is how pip writes a version.", hint=f"Write {name}@{bound}.")
    if len(name) > _MAX_NAME:
        return InvalidRun(f"The name {name[:40]!r}… is longer than npm's {_MAX_NAME} characters.")
    return InvalidRun(f"{bare!r:.100} is not the name of an npm package.", hint=_HOW)
