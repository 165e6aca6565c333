"""Keeps the tables that a session displayed last, so that all their rows can be read later.

A displayed table gets an id.  Its frame shares its values with the user's variable, so a small one costs nothing until
the variable goes.  A large one is kept only as long as the user's code keeps it, too.
"""

from __future__ import annotations

import os
from weakref import ref

from cloche.kernels import table_files, tables
from cloche.kernels.table_rows import Order, Problem, Rows, table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_TABLES = 20
MAX_BYTES = 128 << 20  # of all tables that are kept whatever becomes of the variable
MAX_ONE_BYTES = 32 << 20  # of one of them


class _Kept:
    """The displayed tables by id, the oldest first."""

    rows: dict[str, tuple[Callable[[], Rows | None], int]] = {}  # noqa: RUF012  (one per process)


def describe(value: Any) -> dict[str, Any] | None:
    """Describe a table, and keep it if the description has less than all of it."""
    described = tables.describe(value)
    if described is not None and (described["truncated"] or _has_cut(described)):
        try:
            described["id"] = _keep(value)
        except Exception:
            pass  # the first rows are shown all the same
    return described


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return rows of a kept table, or of a file; a problem is an answer, too."""
    try:
        if "path" in request:
            rows, facts = table_files.rows(request["path"], request.get("sheet"))
            return {**rows.answer(request), **facts}
        return _find(request["table"]).answer(request)
    except Problem as problem:
        return {"problem": problem.kind, "message": str(problem)[:1000], "hint": problem.hint}
    except MemoryError:
        return {"problem": "memory", "message": "There is not enough memory to sort or filter this table.", "hint": ""}
    except KeyboardInterrupt:
        return {"problem": "slow", "message": "Sorting or filtering this table took too long.", "hint": ""}


def _keep(value: Any) -> str:
    table = table_of(value)
    assert table is not None
    identity = os.urandom(8).hex()  # never used twice, even after a checkpoint is restored
    size = int(table.size)
    rows = Rows(table)
    if size <= MAX_ONE_BYTES:
        _Kept.rows[identity] = (lambda: rows), size
    else:
        weak, order = ref(value), Order()

        def while_it_lives() -> Rows | None:
            held = weak()
            table = None if held is None else table_of(held)
            return None if table is None else Rows(table, order)

        _Kept.rows[identity] = while_it_lives, 0
    while len(_Kept.rows) > MAX_TABLES or sum(size for _, size in _Kept.rows.values()) > MAX_BYTES:
        del _Kept.rows[next(iter(_Kept.rows))]
    return identity


def _find(identity: str) -> Rows:
    known = _Kept.rows.get(identity)
    rows = None if known is None else known[0]()
    if rows is None:
        raise Problem("gone", "The session no longer holds this table.", "Run the code again to see all rows.")
    return rows


def _has_cut(described: dict[str, Any]) -> bool:
    """Say whether a text in a description is not complete."""
    return any(
        isinstance(value, str) and len(value) == tables.TEXT and value[-1] == "…"
        for row in described["rows"]
        for value in row
    )
