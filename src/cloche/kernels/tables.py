"""Describes a table as data: columns and their types, the first rows, and a few statistics.

The kernel adds the description to a table's text.  It supports the frames and series of pandas and polars if the code
has imported them, and imports neither.  Both the work and the result are bounded: a table of ten million rows costs no
more than one of a hundred thousand.

Runs inside the sandbox, after its source is gone: it cannot import anything of `cloche`.  The SQL runner has a copy
(languages/sql/runner.py).
"""

from __future__ import annotations

import math
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Column(Protocol):
        """A column of a table, from any library."""

        name: Any
        type: str
        kind: str  # "number", "time" or "other"

        def head(self, count: int) -> list[Any]:
            """Return the first values."""

        def extremes(self, count: int) -> dict[str, Any]:
            """Return missing count, minimum and maximum of the first values, and the mean of numbers."""


ROWS = 50
COLUMNS = 50
SUMMARY_ROWS = 100_000
SUMMARY_COLUMNS = 30
TEXT = 200
BYTES = 256_000  # of the whole description, as JSON
MOST_BYTES = 4 << 20  # if a cell asks for more rows
_WORK = 1_000_000  # values to examine for the summary; a value that is not a number counts as twenty
_MOST_EXACT = 1 << 53  # some readers of JSON cannot represent larger integers exactly


class _Allowed:
    """How much of a table to describe; a cell's request may ask for more."""

    rows, bytes = ROWS, BYTES


def allow(rows: Any) -> None:
    """Describe this many rows of a table, if there is room; None for the default."""
    wanted = rows if isinstance(rows, int) and rows > 0 else ROWS
    _Allowed.rows, _Allowed.bytes = wanted, BYTES if wanted <= ROWS else MOST_BYTES


def describe(value: Any) -> dict[str, Any] | None:
    """Describe a table; None for anything else, or if it cannot be read."""
    try:
        return _describe(value)
    except Exception:
        return None


def _describe(value: Any) -> dict[str, Any] | None:
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    columns: Sequence[Column]
    if isinstance(value, classes_of(pandas)):
        frame = value if hasattr(value, "columns") else value.to_frame(name=value.name)
        shape = [int(size) for size in frame.shape]
        columns = [PandasColumn(frame, n) for n in range(min(shape[1], COLUMNS))]
        index = _index(frame.index)
    elif isinstance(value, classes_of(polars)):
        frame = value if hasattr(value, "columns") else value.to_frame()
        shape = [int(size) for size in frame.shape]
        columns = [PolarsColumn(series) for series in frame.get_columns()[:COLUMNS]]
        index = None
    else:
        return None
    return describe_columns(columns, shape, index)


def describe_columns(
    columns: Sequence[Column], shape: list[int], index: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Describe a table of these columns; `shape` is that of the whole table."""
    heads = [column.head(_Allowed.rows) for column in columns]
    rows = [[cell(value) for value in row] for row in zip(*heads, strict=True)]
    summarised = columns[:SUMMARY_COLUMNS]
    weight = sum(_weight(column, head) for column, head in zip(summarised, heads, strict=False))
    summary_rows = min(shape[0], SUMMARY_ROWS, int(_WORK / max(weight, 1)))
    table = {
        "columns": [{"name": name_of(column.name), "type": column.type[:TEXT]} for column in columns],
        "index": index,
        "shape": shape,
        "rows": rows,
        "truncated": len(rows) < shape[0] or len(columns) < shape[1],
        "summary": [_summary(column, summary_rows) for column in summarised],
        "summary_rows": summary_rows,
    }
    return _fitted(table)


def classes_of(library: Any) -> tuple[Any, ...]:
    """Return the classes of a library that are tables."""
    found = (getattr(library, name, None) for name in ("DataFrame", "Series"))
    return tuple(kind for kind in found if isinstance(kind, type))


class PandasColumn:
    """A column of a pandas frame."""

    def __init__(self, frame: Any, number: int) -> None:
        self._series = frame.iloc[:SUMMARY_ROWS, number]
        dtype = self._series.dtype
        self.name = frame.columns[number]
        self.type = str(dtype)
        kind = getattr(dtype, "kind", "O")
        is_category = self.type == "category"  # a category's kind would be that of its values
        self.kind = "other" if is_category else "number" if kind in "iuf" else "time" if kind in "mM" else "other"

    def head(self, count: int) -> list[Any]:
        return list(self._series.iloc[:count].tolist())

    def extremes(self, count: int) -> dict[str, Any]:
        series = self._series.iloc[:count]
        found = {"nulls": int(series.isna().sum()), "min": series.min(), "max": series.max()}
        return found | {"mean": series.mean()} if self.kind == "number" else found


class PolarsColumn:
    """A column of a polars frame."""

    def __init__(self, series: Any) -> None:
        self._series = series
        self.name = series.name
        self.type = str(series.dtype)
        self.kind = "number" if series.dtype.is_numeric() else "time" if series.dtype.is_temporal() else "other"

    def head(self, count: int) -> list[Any]:
        return list(self._series.head(count).to_list())

    def extremes(self, count: int) -> dict[str, Any]:
        series = self._series.head(count)
        if self.kind == "number" and series.dtype.is_float():
            series = series.fill_nan(None)
        found = {"nulls": series.null_count(), "min": series.min(), "max": series.max()}
        return found | {"mean": series.mean()} if self.kind == "number" else found


def _weight(column: Column, head: list[Any]) -> float:
    """Estimate the cost of examining one value of the column."""
    if column.kind == "number":
        return 1
    texts = [len(value) for value in head if isinstance(value, (str, bytes))]
    return 20 * max(1, sum(texts) / max(len(texts), 1) / TEXT)


def _summary(column: Column, count: int) -> dict[str, Any]:
    """Compute statistics of the first values; those that fail are left out."""
    summary: dict[str, Any] = {"name": name_of(column.name)}
    try:
        if column.kind == "other":
            return summary | _frequencies(column.head(count))
        found = column.extremes(count)
        nulls = int(found.pop("nulls"))
        return summary | {"count": count - nulls, "nulls": nulls, **{key: cell(value) for key, value in found.items()}}
    except Exception:
        return summary


def _frequencies(values: list[Any]) -> dict[str, Any]:
    from collections import Counter

    known = [value for value in values if not _is_missing(value)]
    summary: dict[str, Any] = {"count": len(known), "nulls": len(values) - len(known)}
    try:
        counter = Counter(known)
        summary["unique"] = len(counter)
        if counter:
            top, summary["top_count"] = counter.most_common(1)[0]
            summary["top"] = cell(top)
    except Exception:  # lists and dicts cannot be counted
        pass
    return summary


def _index(index: Any) -> dict[str, Any] | None:
    """Describe the row labels; None if the rows are just numbered."""
    if only_counts(index):
        return None
    return {
        **index_facts(index),
        "values": [row_label(label) for label in index[: _Allowed.rows].tolist()],
    }


def only_counts(index: Any) -> bool:
    """Say whether the row labels of a pandas frame only number the rows."""
    return type(index).__name__ == "RangeIndex" and index.name is None and (index.start, index.step) == (0, 1)


def index_facts(index: Any) -> dict[str, Any]:
    """Describe the row labels without their values."""
    return {
        "names": [None if name is None else name_of(name) for name in index.names],
        "type": "multiindex" if index.nlevels > 1 else str(index.dtype)[:TEXT],
    }


def row_label(label: Any) -> Any:
    """Convert a row's label to JSON."""
    return [cell(part) for part in label] if isinstance(label, tuple) else cell(label)


def name_of(name: Any) -> str:
    """Return the name of a column as text."""
    if isinstance(name, tuple):  # a column under several headings
        return " / ".join(name_of(part) for part in name if part != "")[:TEXT]
    return "" if name is None else _cut(name) if isinstance(name, str) else str(cell(name))


def cell(value: Any) -> Any:
    """Convert a value to JSON."""
    try:
        if _is_missing(value):
            return None
        if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()
        if isinstance(value, (bool, str)):
            return _cut(value) if isinstance(value, str) else value
        if isinstance(value, int):
            return int(value) if -_MOST_EXACT <= value <= _MOST_EXACT else _cut(_repr(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if hasattr(value, "isoformat"):
            return _cut(value.isoformat() if type(value).__name__ != "Timedelta" else str(value))
        if type(value).__name__ in ("Decimal", "timedelta", "UUID", "Period", "Interval", "Path", "PosixPath"):
            return _cut(str(value))
        return _cut(_repr(value))
    except Exception:
        return f"<{type(value).__name__}>"[:TEXT]


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return isinstance(value, float) and value != value


def _repr(value: Any) -> str:
    """Return a value's repr, shortened if it is large."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return repr(bytes(value[:TEXT]))
    if not isinstance(value, (list, tuple, dict, set, frozenset, int)):
        return repr(value)
    from reprlib import Repr

    brief = Repr()
    brief.maxlevel = 4
    brief.maxlist = brief.maxtuple = brief.maxdict = brief.maxset = brief.maxfrozenset = 20
    brief.maxstring = brief.maxother = brief.maxlong = TEXT
    return brief.repr(value)


def _cut(text: str) -> str:
    # Replace characters that cannot be encoded, and so not sent.
    text = str.__str__(text)[: TEXT + 1].encode("utf-8", "replace").decode()
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def _fitted(table: dict[str, Any]) -> dict[str, Any]:
    """Drop rows until the description fits."""
    from json import dumps

    while len(dumps(table)) > _Allowed.bytes:
        table["truncated"] = True
        if table["rows"]:
            table["rows"] = table["rows"][: len(table["rows"]) // 2]
            if table["index"] is not None:
                table["index"]["values"] = table["index"]["values"][: len(table["rows"])]
        elif table["summary"]:
            table["summary"] = []
        else:
            table["columns"] = table["columns"][: len(table["columns"]) // 2]
    return table
