"""The results of queries: as text for people, and as files that are displayed.

A copy of this file is beside the scripts that run SQL inside a sandbox, and a copy of kernels/tables.py beside it.
"""

from __future__ import annotations

import os
import re
from decimal import Decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRINTED_ROWS = 100
KEPT_CELLS = 500_000  # of a result, kept for its statistics
MOST_DISPLAYS = 100
WIDEST = 100  # characters of a cell that are printed at most
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


class QueryResult:
    """The first rows of a query's result, and how many there are."""

    def __init__(self, database: Any, columns: list[tuple[str, str]]) -> None:
        self.columns = columns
        most = max(PRINTED_ROWS, KEPT_CELLS // max(len(columns), 1))
        self.rows: list[tuple[Any, ...]] = database.fetchmany(most)
        self.count = len(self.rows)
        while self.count >= most and (more := len(database.fetchmany(100_000))):
            self.count += more

    def text(self) -> str:
        """Format the table for people."""
        head = [plain(name) for name, _ in self.columns]
        body = [[plain(value) for value in row] for row in self.rows[:PRINTED_ROWS]]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        right = [is_number(what) for _, what in self.columns]
        lines = [" | ".join(name.ljust(width) for name, width in zip(head, widths, strict=True)).rstrip()]
        lines.append("-+-".join("-" * width for width in widths))
        for row in body:
            cells = zip(row, widths, right, strict=True)
            lines.append(
                " | ".join(cell.rjust(width) if of else cell.ljust(width) for cell, width, of in cells).rstrip()
            )
        left = self.count - len(body)
        return "\n".join(lines) + f"\n({rows_of(self.count)}{f', {left} of them not shown' if left else ''})\n"

    def html(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(plain(name))}</th>" for name, _ in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(plain(value))}</td>' for value in row)}</tr>"
            for row in self.rows[:PRINTED_ROWS]
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Column:
    """One column of a result, in the form that tables.py expects."""

    def __init__(self, result: QueryResult, number: int) -> None:
        self.name, self.type = result.columns[number]
        self._values = [simple(row[number]) for row in result.rows]
        is_time = self.type.startswith(("DATE", "TIME", "INTERVAL"))
        self.kind = "number" if is_number(self.type) else "time" if is_time else "other"

    def head(self, count: int) -> list[Any]:
        return self._values[:count]

    def extremes(self, count: int) -> dict[str, Any]:
        """Summarise the first values: how many are missing, the least, the greatest, and the mean of numbers."""
        values = self._values[:count]
        known = [value for value in values if value is not None and value == value]
        found = {"nulls": len(values) - len(known), "min": min(known, default=None), "max": max(known, default=None)}
        return found | {"mean": sum(known) / len(known) if known else None} if self.kind == "number" else found


class Displays:
    """Saves results to be displayed: as data, as text and as HTML."""

    def __init__(self, folder: str) -> None:
        self._folder, self._count = folder, 0

    def add(self, result: QueryResult, text: str) -> None:
        self._count += 1
        if self._count > MOST_DISPLAYS:
            return
        from json import dumps

        from tables import COLUMNS, describe_columns  # type: ignore[import-not-found]

        columns = [Column(result, number) for number in range(min(len(result.columns), COLUMNS))]
        table = describe_columns(columns, [result.count, len(result.columns)])
        if table["summary_rows"] > len(result.rows):
            table["summary_rows"] = len(result.rows)
        for ending, form in ((".table.json", dumps(table)), (".txt", text), (".html", result.html())):
            path = os.path.join(self._folder, f"{self._count:03}{ending}")
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(form)


def is_number(what: str) -> bool:
    return what in _NUMBERS or what.startswith(("DECIMAL", "FLOAT", "DOUBLE", "REAL", "UHUGEINT", "BIGNUM"))


def simple(value: Any) -> Any:
    """Convert a value to one that JSON has."""
    return float(value) if isinstance(value, Decimal) else value


def plain(value: Any) -> str:
    """Write a value on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def verb(query: str) -> str:
    """Return the kind of a statement: `CREATE TABLE`, `INSERT`."""
    words = re.sub(r"(?s)/\*.*?\*/|--[^\n]*", " ", query).upper().replace(";", " ").split()
    words = [word for word in words[:6] if word not in ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "IF")]
    return " ".join(words[: 2 if words[0] in ("CREATE", "DROP", "ALTER") else 1])


def rows_of(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
