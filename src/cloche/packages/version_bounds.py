"""Bounds on the versions of packages, as an operator writes them: `{"numpy": "<3", "npm:lodash": ">=4"}`.

A bound belongs to a name or a pattern.  Without `python:` or `npm:` before the name it holds for both, so both must be
able to read it.  ` & ` joins bounds that must all hold.
"""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model import npm_versions, python_versions
from cloche.model.packages import JAVASCRIPT
from cloche.packages.patterns import is_covered, patterns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_AND = " & "


def bounds_of(rule: str, value: Mapping[str, str]) -> dict[str, str]:
    """The bounds in one spelling; InvalidRun names the rule."""
    if not hasattr(value, "items"):
        raise InvalidRun(f"{rule} is a table, not {value!r:.100}.", hint='Write {"numpy": "<3", "npm:lodash": ">=4"}.')
    found: dict[str, str] = {}
    for name, bound in value.items():
        if not isinstance(bound, str) or not bound.strip():
            raise InvalidRun(f"{rule}: the bound of {name!r:.100} is a text such as <3, not {bound!r:.100}.")
        (pattern,) = patterns_of(rule, [name])
        for part in bound.split(_AND):
            _check(rule, pattern, part.strip())
        found[pattern] = _joined(found.get(pattern, ""), bound.strip())
    return found


def common_bounds(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Bounds that allow what both allow."""
    return {name: _joined(first.get(name, ""), second.get(name, "")) for name in {**first, **second}}


def broken_bound(ecosystem: str, name: str, version: str, bounds: Mapping[str, str]) -> str | None:
    """The bound that a version breaks, or None."""
    language = npm_versions if ecosystem == JAVASCRIPT else python_versions
    for bound in _bounds_for(ecosystem, name, bounds):
        if not language.is_within(version, bound):
            return bound
    return None


def for_resolver(ecosystem: str, bounds: Mapping[str, str]) -> dict[str, str]:
    """The bounds on single names, so that a resolver chooses a version that they allow."""
    plain = {pattern.rpartition(":")[2] for pattern in bounds if "*" not in pattern and "&" not in pattern}
    joint = " " if ecosystem == JAVASCRIPT else ","
    found = {name: [*dict.fromkeys(_bounds_for(ecosystem, name, bounds))] for name in sorted(plain)}
    # npm cannot join two lists of alternatives.
    return {
        name: joint.join(each) if len(each) == 1 or not any("||" in one for one in each) else each[0]
        for name, each in found.items()
        if each
    }


def _bounds_for(ecosystem: str, name: str, bounds: Mapping[str, str]) -> list[str]:
    found = (text.split(_AND) for pattern, text in bounds.items() if is_covered(ecosystem, name, (pattern,)))
    return [part.strip() for parts in found for part in parts]


def _joined(first: str, second: str) -> str:
    parts = [part.strip() for text in (first, second) if text for part in text.split(_AND)]
    return _AND.join(dict.fromkeys(parts))


def _check(rule: str, pattern: str, bound: str) -> None:
    is_for_python, is_for_npm = python_versions.is_bound(bound), npm_versions.is_range(bound)
    is_read = {"python:": is_for_python, "npm:": is_for_npm}.get(f"{pattern.rpartition(':')[0]}:")
    if is_read or (is_read is None and is_for_python and is_for_npm):
        return
    hint = "Write a bound such as <3 or >=1.26,<3."
    if is_read is None and (is_for_python or is_for_npm):
        hint = f"Only one kind of package has such bounds. Write {'python' if is_for_python else 'npm'}:{pattern}."
    raise InvalidRun(f"{rule}: {bound!r:.100} of {pattern} is not a bound on versions.", hint=hint)
