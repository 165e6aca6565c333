"""How many items callers may send in one field; every door checks the JSON that it receives here.

The wall and the programs behind it pay for each item, and so does the check of its type.  These bounds are far above
what programs need, and the same on every server.
"""

from __future__ import annotations

from typing import Any

from cloche.errors import InvalidRun

MAX_ENV = 1_000
MAX_ENV_SIZE = 256 << 10  # characters of all names and values; the kernel takes 128 KB for one variable
MAX_METADATA = 50
MAX_FILTERS = 20  # of a list; each is a condition of a query
MAX_ITEMS = 10_000  # of a list or object that the table does not name
_ENV = ("env", "envs", "envVars", "env_vars")  # its names in Cloche's, E2B's and the interpreter's messages
MOST = {
    **dict.fromkeys(_ENV, MAX_ENV),
    "metadata": MAX_METADATA,
    "filters": MAX_FILTERS,
    "mounts": 100,
    "candidates": 100,
    "tools": 500,
    "runs": 1_000,
    "scopes": 10,
}
_ANYTHING = frozenset(("value",))  # a caller's own data: bounded as a whole, like all JSON
_LEVELS = 3  # of objects that are fields: E2B nests one in `process`, MCP two in `params`


def check_amounts(value: Any) -> None:
    """Raise if a field of a message has too many items."""
    if isinstance(value, dict):
        _check(value, _LEVELS)
    elif isinstance(value, list) and len(value) > MAX_ITEMS:
        raise _too_many("The list", MAX_ITEMS)


def check_amount(name: str, count: int) -> None:
    """Raise if a field has too many items."""
    most = MOST.get(name, MAX_ITEMS)
    if count > most:
        raise _too_many(f"`{name}`", most)


def _check(fields: dict[str, Any], levels: int) -> None:
    for name, value in fields.items():
        if isinstance(value, dict | list) and name not in _ANYTHING:
            check_amount(name[:100], len(value))
            if name in _ENV and isinstance(value, dict):
                _check_size(name, value)
            if levels > 1 and isinstance(value, dict):
                _check(value, levels - 1)


def _check_size(name: str, variables: dict[str, Any]) -> None:
    size = sum(len(one) + (len(value) if isinstance(value, str) else 0) for one, value in variables.items())
    if size > MAX_ENV_SIZE:
        raise InvalidRun(
            f"`{name}` is too long: names and values may have {MAX_ENV_SIZE} characters.",
            hint="Pass large data as files or as standard input.",
        )


def _too_many(what: str, most: int) -> InvalidRun:
    return InvalidRun(f"{what} has too many items: at most {most} are allowed.", hint="Send fewer.")
