"""Runs SQL: executes one statement after the other, prints each result as a table, and saves it for display.

Started inside the sandbox as `sql.py PROGRAM FOLDER CORES MEMORY ARGUMENTS…`, with copies of query_results.py
and kernels/tables.py beside it: nothing of `cloche` can be imported here.
"""

from __future__ import annotations

import os
import re
import sys

import duckdb  # type: ignore[import-not-found]  # sandboxes have it
from query_results import Displays, QueryResult, rows_of, verb  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DATA = "/sandbox/data"
DIALECT = "Note: SQL runs on DuckDB, whose dialect is close to PostgreSQL's. The language sqlite runs on SQLite."
READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".csv.gz": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
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


def fail(problem: str, line: int) -> int:
    """Print the error with its place in the whole program."""
    sys.stdout.flush()
    print(re.sub(r"(?m)^LINE (\d+)(:.*\n)", lambda found: moved(found, line), problem, count=1), file=sys.stderr)
    if problem.startswith(("Parser", "Syntax")):
        print(f"\n{DIALECT}", file=sys.stderr)
    return 1


def moved(place: re.Match[str], lines: int) -> str:
    """Add the lines before the statement to `LINE 2: …`; the mark below keeps its column."""
    number = str(int(place[1]) + lines)
    return f"LINE {number}{place[2]}{' ' * (len(number) - len(place[1]))}"


if __name__ == "__main__":
    sys.exit(main())
