"""Returns rows of a table, filtered and sorted over all of it: as data, or as the text of a CSV file.

Columns are numbered from 0; -1 is the first level of the row labels, -2 the second.  Supports the frames and series of
pandas and polars, and imports neither.
"""

from __future__ import annotations

import operator
import sys

from cloche.kernels import tables
from cloche.kernels.pandas_table import PandasTable
from cloche.kernels.polars_table import PolarsTable
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    class Library(Protocol):
        """A table, through the functions of the library that made it.  Positions are those of rows, in any order."""

        frame: Any
        index: dict[str, Any] | None  # facts about the row labels

        @property
        def size(self) -> int:
            """The bytes of the values."""

        def column(self, number: int) -> Any:
            """Return a series."""

        def comparable(self, series: Any, value: str) -> Any:
            """Return a value that can be compared with those of the series."""

        def is_numeric(self, series: Any) -> bool:
            """Say whether the values are numbers or times."""

        def text(self, series: Any) -> Any:
            """Return the series as texts in lower case."""

        def missing(self, series: Any) -> Any:
            """Return which values are missing."""

        def contains(self, texts: Any, part: str) -> Any:
            """Return which texts contain a part."""

        def where(self, mask: Any) -> Any:
            """Return the positions at which the mask is true."""

        def in_order(self, series: Any, positions: Any, descending: bool) -> Any:
            """Return the positions in the order of their values; missing values come last."""

        def part(self, positions: Any, columns: range) -> Any:
            """Return these rows and columns as a frame."""

        def columns(self, part: Any) -> Sequence[tables.Column]:
            """Return the columns of a part."""

        def labels(self, part: Any, /) -> list[Any]:
            """Return the row labels of a part."""

        def write(self, part: Any, separator: str, header: bool, labels: bool, /) -> str:
            """Return a part as text."""


MAX_ROWS = 20_000  # in one answer
MAX_COLUMNS = 200
MAX_FILTERS = 50
_BYTES = 400_000  # of an answer, which has to fit into one frame
_EMPTY_BYTES = 200  # of an answer without rows, about
_SAMPLE = 200  # rows
_NUMERIC = frozenset("0123456789.,:+-/ efint")  # all that the text of a number or a time can have, in lower case
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Problem(Exception):
    """The request cannot be carried out: `kind` is "gone", "invalid" or "memory", the text says why."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind, self.hint = kind, hint


class Order:
    """The latest order in which the rows of a table were wanted, so that scrolling need not sort again."""

    view = ""
    positions: Any = None


class Rows:
    """The rows of one table."""

    def __init__(self, table: Library, order: Order | None = None) -> None:
        self._table, self._order = table, order or Order()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return some rows, as the request describes them."""
        table = self._table
        height, width = (int(size) for size in table.frame.shape)
        positions = self._in_view(request, width)
        matched = height if positions is None else len(positions)
        is_text = request["form"] != "rows"
        first, last = request.get("columns") or (0, width if is_text else MAX_COLUMNS)
        columns = range(min(first, width), min(last, width, width if is_text else first + MAX_COLUMNS))
        begin = min(request["offset"], matched)
        count = min(request["limit"], MAX_ROWS, matched - begin)
        facts = {"shape": [height, width], "matched": matched, "offset": begin}
        if count > _SAMPLE:  # find out how large a row is, before too many are read
            sample = self.answer({**request, "offset": begin, "limit": _SAMPLE})
            taken = max(len(dumps(sample)) - _EMPTY_BYTES, 1) / max(sample["count"], 1)
            count = max(min(count, int(_BYTES * 0.8 / taken)), 1)
        while True:
            chosen = range(begin, begin + count) if positions is None else positions[begin : begin + count]
            part = table.part(chosen, columns)
            if not is_text:
                found = _data(table, part, columns, count) | {
                    "numbers": [int(number) for number in chosen],
                    "count": count,
                }
            else:
                separator = "," if request["form"] == "csv" else "\t"
                found = {
                    "text": table.write(part, separator, bool(request["header"]), bool(request["labels"])),
                    "count": count,
                }
            size = len(dumps(found))
            if size <= _BYTES:
                return {**facts, **found}
            if count <= 1:
                raise Problem("invalid", f"Row {begin + 1} is too large to be sent.", "Look at it with code.")
            count = max(int(count * 0.8 * _BYTES / size), 1)

    def _in_view(self, request: dict[str, Any], width: int) -> Any:
        """Return the positions of the rows that the filters let through, in order; None for all as they are."""
        view = {name: request.get(name) for name in ("filters", "search", "sort")}
        if not any(view.values()):
            return None
        key = dumps(view)
        if key != self._order.view:
            self._order.positions = self._chosen(view, width)
            self._order.view = key
        return self._order.positions

    def _chosen(self, view: dict[str, Any], width: int) -> Any:
        table, mask = self._table, None
        for wanted in (view["filters"] or [])[:MAX_FILTERS]:
            found = self._filtered(self._column(wanted["column"], width), wanted["how"], str(wanted.get("value", "")))
            mask = found if mask is None else mask & found
        if view["search"]:
            found = self._searched(str(view["search"]).lower(), width)
            if found is None:
                return []
            mask = found if mask is None else mask & found
        positions = None if mask is None else table.where(mask)
        if view["sort"]:
            series = self._column(view["sort"]["column"], width)
            positions = table.in_order(series, positions, bool(view["sort"].get("descending")))
        return positions

    def _searched(self, part: str, width: int) -> Any:
        """Return which rows have a text in any column; None if no column can have it."""
        table, mask = self._table, None
        levels = len(table.index["names"]) if table.index else 0
        for number in range(-levels, min(width, MAX_COLUMNS)):
            series = table.column(number)
            if table.is_numeric(series) and not _NUMERIC.issuperset(part):
                continue
            found = table.contains(table.text(series), part)
            mask = found if mask is None else mask | found
        return mask

    def _column(self, number: int, width: int) -> Any:
        levels = len(self._table.index["names"]) if self._table.index else 0
        if not -levels <= number < width:
            raise Problem("invalid", f"The table has no column {number}.")
        return self._table.column(number)

    def _filtered(self, series: Any, how: str, value: str) -> Any:
        table = self._table
        if how == "missing":
            return table.missing(series)
        if how == "present":
            return ~table.missing(series)
        if how == "contains":
            return table.contains(table.text(series), value.lower())
        compare = _COMPARE[how]
        try:
            comparable = table.comparable(series, value)
        except Exception:
            raise Problem("invalid", f"“{value[:100]}” cannot be compared with this column.") from None
        if comparable is None:
            return compare(table.text(series), value.lower()) & ~table.missing(series)
        return compare(series, comparable) & ~table.missing(series)


def table_of(value: Any) -> Library | None:
    """Return a table of pandas or polars; None for anything else."""
    kinds: tuple[tuple[str, Callable[[Any], Library]], ...] = (("pandas", PandasTable), ("polars", PolarsTable))
    for name, kind in kinds:
        if isinstance(value, tables.classes_of(sys.modules.get(name))):
            return kind(value)
    return None


def _data(table: Library, part: Any, columns: range, count: int) -> dict[str, Any]:
    found = table.columns(part)
    heads = [column.head(count) for column in found]
    index = table.index
    if index is not None:
        index = {**index, "values": [tables.row_label(label) for label in table.labels(part)]}
    return {
        "columns": [{"name": tables.name_of(one.name), "type": one.type[: tables.TEXT]} for one in found],
        "first_column": columns.start,
        "index": index,
        "rows": [[tables.cell(value) for value in row] for row in zip(*heads, strict=True)],
    }
