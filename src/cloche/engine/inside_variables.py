"""Checks the list of variables that a kernel sends; nothing in it is trusted."""

from __future__ import annotations

from cloche.model.history import Variable, VariableList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LISTED = 1000
MAX_NAME = 100  # characters, also of a type and a shape
MAX_SHOWN = 120  # characters of each value in a list
MAX_LOOKED_AT = 8000  # characters of a single value


def listed(answer: dict[str, Any]) -> VariableList:
    """Return the variables of an answer, as far as they are well formed."""
    if answer.get("busy") is True:
        return VariableList((), 0, "busy")
    given = answer.get("items")
    rows = [row for row in given[:MAX_LISTED] if isinstance(row, dict)] if isinstance(given, list) else []
    most = MAX_SHOWN if len(rows) > 1 else MAX_LOOKED_AT
    items = tuple(
        Variable(
            _text(row, "name", MAX_NAME),
            _text(row, "type", MAX_NAME),
            _count(row.get("size")),
            _text(row, "shown", most),
            _text(row, "shape", MAX_NAME),
        )
        for row in rows
    )
    return VariableList(items, max(len(items), _count(answer.get("total"))))


def _text(row: dict[str, Any], name: str, most: int) -> str:
    value = row.get(name)
    return value[:most] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0
