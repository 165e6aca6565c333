"""The operator's bounds on what callers ask for: each limit of LIMITS has a setting `max_<name>`.

All verbs of the service that take limits pass through here; no door decides about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloche.configuration import Configuration
from cloche.errors import InvalidRun
from cloche.model.limits import BY_NAME, LIMITS, Limit, Limits, size

_DEFAULT = Limits()


def limits_for(requested: Mapping[str, Any], configuration: Configuration) -> Limits:
    """The limits of a new sandbox, from those that its caller named; other names in `requested` are ignored.

    A limit of time that is None is the longest that the operator allows.  A limit that the caller did not name has its
    default, or the most that the operator allows where that is less.
    """
    values = {}
    for row in LIMITS:
        if row.name in requested:
            values[row.field] = _checked(row, requested[row.name], configuration)
        else:
            values[row.field] = _at_most(row, getattr(_DEFAULT, row.field), configuration)
    return Limits(**values)


def check_value(name: str, value: float | str | None, configuration: Configuration) -> None:
    """Raise if one limit of a single run or command is too large; None leaves it as the sandbox has it."""
    if value is not None:
        _checked(BY_NAME[name], value, configuration)


def reduced(wanted: Mapping[str, Any], configuration: Configuration) -> dict[str, Any]:
    """Limits that a door chooses by itself, each reduced to what the operator allows; None is as much as that."""
    return {name: _at_most(BY_NAME[name], value, configuration) for name, value in wanted.items()}


def _checked(row: Limit, value: Any, configuration: Configuration) -> Any:
    """A value that a caller wrote, in the limit's unit."""
    most = getattr(configuration, row.setting)
    if value is None and row.unit == "seconds":
        return most
    number = size(row.name, value) if row.unit == "bytes" else value
    if isinstance(number, int | float) and number > most:
        raise InvalidRun(
            f"{row.name} is limited to {row.shown(most)} on this server.",
            hint=f"Ask for at most that; the operator can raise `{row.setting}` in the server's configuration.",
        )
    return row.read(value)


def _at_most(row: Limit, value: Any, configuration: Configuration) -> Any:
    most = getattr(configuration, row.setting)
    return most if value is None else min(value, most)
