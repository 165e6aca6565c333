"""Reads rows of tables inside a sandbox of this host: those that a session displayed, and those in files."""

from __future__ import annotations

import errno
from math import isfinite
from typing import Any

from cloche.engine import agent_requests
from cloche.engine.host_only import on_this_host
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun, Refused
from cloche.sandbox.sandbox import AsyncSandbox

SORT_S = 8.0  # for a session's kernel to sort or filter a table
READ_S = 20.0  # for a file to be read
_MAX_CELLS = 500_000
_PROBLEMS: dict[str, type[ClocheError]] = {
    "gone": Gone,
    "missing": FileMissing,
    "invalid": InvalidRun,
    "memory": Refused,
    "slow": Refused,
    "library": Refused,
}
_FORGOTTEN = ("The session no longer holds this table.", "Run the code again to see all rows.")


async def rows(box: AsyncSandbox, request: dict[str, Any]) -> dict[str, Any]:
    """Return some rows of the table with the id `table` in a `context`, or of the file at `path`."""
    is_file = "path" in request
    seconds = READ_S if is_file else SORT_S
    try:
        answer = await agent_requests.call(
            on_this_host(box), {"method": "rows", "seconds": seconds, **request}, "table"
        )
    except FileMissing:
        raise Gone(*_FORGOTTEN) from None
    except FileProblem as problem:
        raise _failure(problem, is_file) from None
    kind = answer.get("problem")
    if kind is not None:
        message, hint = _text(answer.get("message"), 1000), _text(answer.get("hint"), 1000)
        if not message:
            message, hint = _FORGOTTEN
        raise _PROBLEMS.get(str(kind), Refused)(message, hint)
    try:
        return _checked(answer, request["form"])
    except (KeyError, TypeError, ValueError):
        raise agent_requests.nonsense() from None


def _failure(problem: FileProblem, is_file: bool) -> ClocheError:
    if problem.errno == errno.EBUSY:
        return Refused("The session is running code.", hint="More rows can be read when it is done.")
    if problem.errno == errno.ETIMEDOUT:
        what = "Reading this file" if is_file else "Sorting or filtering this table"
        return Refused(f"{what} took too long.", hint="Use code, which may take longer.")
    if problem.errno == errno.EIO and is_file:
        return Refused(
            "The process that read this file was ended, probably because memory ran out.",
            hint="Give the sandbox more memory, or read a part of the file with code.",
        )
    return problem


def _checked(answer: dict[str, Any], form: str) -> dict[str, Any]:
    """Keep what an answer should have, in the types that it should have."""
    height, width = (_count(size) for size in answer["shape"])
    found: dict[str, Any] = {
        "shape": [height, width],
        "matched": _count(answer["matched"]),
        "offset": _count(answer["offset"]),
        "version": _text(answer.get("version"), 100),
        "sheets": [_text(name, 100) for name in _list(answer.get("sheets") or [], 100)],
        "sheet": _text(answer.get("sheet"), 100),
        "note": _text(answer.get("note"), 500),
    }
    if form != "rows":
        if not isinstance(answer["text"], str):
            raise TypeError
        return {**found, "text": answer["text"], "count": _count(answer["count"])}
    columns = [{name: _text(one[name], 200) for name in ("name", "type")} for one in _list(answer["columns"], 1000)]
    lines = _list(answer["rows"], _MAX_CELLS // max(len(columns), 1))
    if any(not isinstance(line, list) or len(line) != len(columns) for line in lines):
        raise ValueError
    return {
        **found,
        "columns": columns,
        "first_column": _count(answer["first_column"]),
        "index": _index(answer["index"], len(lines)),
        "numbers": [_count(number) for number in _list(answer["numbers"], len(lines))],
        "rows": [[_cell(value) for value in line] for line in lines],
        "count": len(lines),
    }


def _index(index: Any, height: int) -> dict[str, Any] | None:
    if index is None:
        return None
    names = [None if name is None else _text(name, 200) for name in _list(index["names"], 100)]
    values = _list(index["values"], height)
    if len(values) != height or not names:
        raise ValueError
    labels = [
        [_cell(one) for one in _list(value, 100)] if isinstance(value, list) else _cell(value) for value in values
    ]
    return {"names": names, "type": _text(index["type"], 200), "values": labels}


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, str):
        return value[:1000]
    raise TypeError


def _text(value: Any, length: int) -> str:
    return value[:length] if isinstance(value, str) else ""


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError
    return value
