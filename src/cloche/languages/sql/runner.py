"""Runs SQL: executes one statement after the other, prints each result as a table, and saves it for display.

Started inside the sandbox as `sql.py PROGRAM FOLDER CORES MEMORY ARGUMENTS…`, with a copy of kernels/tables.py beside
it: nothing of `cloche` can be imported here.
"""

from __future__ import annotations

import os
import re
import sys
from decimal import Decimal

import duckdb  # type: ignore[import-not-found]  # sandboxes have it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DATA = "/sandbox/data"
PRINTED_ROWS = 100
KEPT_CELLS = 500_000  # of a result, kept for its statistics
MOST_DISPLAYS = 100
WIDEST = 100  # characters of a cell that are printed at most
READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".csv.gz": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "COPY", "CREATE")
_MISSING = r'^Catalog Error: Table with name "?(?P<name>[^"\n]+?)"? does not exist'


def main() -> int:
    """Run the program; return 1 if one of its statements fails."""
    source, folder, cores, memory, *arguments = sys.argv[1:]
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with open(source, encoding="utf-8", errors="replace") as file:
        text = file.read()
    database = connect(int(cores), int(memory))
    shown = Displays(folder)
    try:
        statements = list(located(text))
    except duckdb.Error as problem:
        return fail(str(problem), 0)
    for statement, line in statements:
        try:
            execute(database, statement, arguments)
            answer(database, statement, shown)
        except duckdb.Error as problem:
            return fail(str(problem), line)
    return 0


def connect(cores: int, memory: int) -> Any:
    """Open an empty database in memory, which spills to disk before the sandbox's memory is used up."""
    return duckdb.connect(
        config={
            "threads": cores,
            "memory_limit": f"{max(64, memory * 6 // 10 >> 20)}MiB",
            "temp_directory": "/tmp/.duckdb",
            "file_search_path": DATA,
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        }
    )


def located(text: str) -> Iterator[tuple[Any, int]]:
    """Yield the statements, each with the number of lines before it."""
    place = 0
    for statement in duckdb.extract_statements(text):
        found = text.find(statement.query, place)
        place = found if found >= 0 else place
        yield statement, text.count("\n", 0, place)
        place += len(statement.query) if found >= 0 else 0


def execute(database: Any, statement: Any, arguments: list[str]) -> None:
    """Run a statement; if a table is missing and a data file has its name, make a view of the file."""
    wanted = sorted(statement.named_parameters, key=lambda name: (len(name), name))
    given = {name: arguments[int(name) - 1] for name in wanted if name.isdigit() and int(name) <= len(arguments)}
    tried: set[str] = set()
    while True:
        try:
            database.execute(statement.query, given or None)  # as text, so that errors name the place
            return
        except duckdb.CatalogException as problem:
            missing = re.match(_MISSING, str(problem))
            if missing is None or missing["name"] in tried or not offer(database, missing["name"]):
                raise
            tried.add(missing["name"])


def offer(database: Any, table: str) -> bool:
    """Make a view of the only data file with the name of the table."""
    found = [
        (os.path.join(folder, name), reader)
        for folder in dict.fromkeys((DATA, os.getcwd()))
        for name in (os.listdir(folder) if os.path.isdir(folder) else ())
        for ending, reader in READERS.items()
        if name.lower() == f"{table.lower()}{ending}"
    ]
    if len(found) != 1:
        return False
    path, reader = found[0]
    name, place = quoted(table, '"'), quoted(path, "'")
    database.execute(f"CREATE VIEW {name} AS FROM {reader}({place})")
    return True


def quoted(text: str, mark: str) -> str:
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def answer(database: Any, statement: Any, shown: Displays) -> None:
    """Print what a statement has done, or print and save its result."""
    kind = statement.type.name
    columns = [(str(name), str(what)) for name, what, *_ in database.description or ()]
    if columns == [("Success", "BOOLEAN")]:
        print(verb(statement.query))
    elif kind in _CHANGES and columns == [("Count", "BIGINT")] and "returning" not in statement.query.lower():
        count = database.fetchone()
        print(verb(statement.query) + (f": {rows_of(count[0])}" if count else ""))
    elif kind == "EXPLAIN":
        print("\n".join(str(row[-1]) for row in database.fetchall()))
    else:
        result = QueryResult(database, columns)
        text = result.text()
        print(text)
        shown.add(result, text)


def verb(query: str) -> str:
    """Return the kind of a statement: `CREATE TABLE`, `INSERT`."""
    words = re.sub(r"(?s)/\*.*?\*/|--[^\n]*", " ", query).upper().replace(";", " ").split()
    words = [word for word in words[:6] if word not in ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "IF")]
    return " ".join(words[: 2 if words[0] in ("CREATE", "DROP", "ALTER") else 1])


def rows_of(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


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
    return what in _NUMBERS or what.startswith(("DECIMAL", "FLOAT", "DOUBLE", "UHUGEINT", "BIGNUM"))


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


def fail(problem: str, line: int) -> int:
    """Print the error with its place in the whole program."""
    sys.stdout.flush()
    print(re.sub(r"(?m)^LINE (\d+)(:.*\n)", lambda found: moved(found, line), problem, count=1), file=sys.stderr)
    return 1


def moved(place: re.Match[str], lines: int) -> str:
    """Add the lines before the statement to `LINE 2: …`; the mark below keeps its column."""
    number = str(int(place[1]) + lines)
    return f"LINE {number}{place[2]}{' ' * (len(number) - len(place[1]))}"


if __name__ == "__main__":
    sys.exit(main())
