"""Runs SQL with SQLite: executes the statements in turn, prints each result as a table, and saves it for display.

Started inside the sandbox as `sql.py PROGRAM FOLDER ARGUMENTS…`, with copies of query_results.py and kernels/tables.py
beside it: nothing of `cloche` can be imported here.  Errors are printed as the sqlite3 program prints them.
"""

from __future__ import annotations

import re
import sqlite3
import sys

from query_results import Displays, QueryResult, rows_of, verb  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
_NOT_PARSED = ("syntax error", "incomplete input", "unrecognized token")
_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_SHOWN_ANYWAY = (".header", ".mode", ".separator", ".width", ".nullvalue", ".timer", ".echo", ".bail")


def main() -> int:
    """Run the program; return 1 if one of its statements fails."""
    source, folder, *arguments = sys.argv[1:]
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with open(source, encoding="utf-8", errors="replace") as file:
        text = file.read()
    database = sqlite3.connect(":memory:", isolation_level=None)
    shown = Displays(folder)
    for statement, line in statements(text):
        if statement.startswith("."):
            if statement.startswith(_SHOWN_ANYWAY):
                continue  # how the sqlite3 program prints tables
            return fail("Parse", line, f"{statement.split()[0]} is a command of the sqlite3 program, not SQL")
        try:
            answer(execute(database, statement, arguments), statement, shown)
        except (sqlite3.Error, sqlite3.Warning) as problem:
            is_broken = any(sign in str(problem) for sign in _NOT_PARSED)
            return fail("Parse" if is_broken else "Runtime", line, str(problem))
    return 0


def statements(text: str) -> Iterator[tuple[str, int]]:
    """Yield each statement, and each command of the sqlite3 program, with its line."""
    begun, first = "", 0  # the statement so far, and the line of its first word
    for line, row in enumerate(text.splitlines(keepends=True), 1):
        if not first and row.lstrip().startswith("."):
            yield row.strip(), line
            continue
        for piece in re.split(r"(?<=;)", row):
            begun += piece
            if not first:
                begun = without_comments(begun)
                first = line if begun and not begun.startswith(("--", "/*")) else 0
            if first and piece.endswith(";") and sqlite3.complete_statement(begun):
                yield begun.strip(), first
                begun, first = "", 0
    if first:
        yield begun.strip(), first


def without_comments(text: str) -> str:
    """Remove the comments before a statement; one whose end is not read yet stays."""
    return re.sub(r"(?s)\A(?:\s|;|--[^\n]*\n|/\*.*?\*/)+", "", text)


def execute(database: sqlite3.Connection, statement: str, arguments: list[str]) -> sqlite3.Cursor:
    """Run a statement; its parameters (`?`, `?2`, `$1`) are the program's arguments, as texts."""
    try:
        return database.execute(statement)
    except sqlite3.ProgrammingError as problem:
        wanted = re.search(r"uses (\d+), and there are 0 supplied", str(problem))
        if wanted is None or int(wanted[1]) > len(arguments):
            raise
        return database.execute(statement, arguments[: int(wanted[1])])


def answer(cursor: sqlite3.Cursor, statement: str, shown: Displays) -> None:
    """Print what a statement has done, or print and save its result."""
    if cursor.description is None:
        word = verb(statement)
        print(word + (f": {rows_of(cursor.rowcount)}" if word in _CHANGES and cursor.rowcount >= 0 else ""))
        return
    result = QueryResult(cursor, [(str(column[0]), "TEXT") for column in cursor.description])
    result.columns = [(name, type_of(result.rows, place)) for place, (name, _) in enumerate(result.columns)]
    text = result.text()
    print(text)
    shown.add(result, text)


def type_of(rows: list[tuple[Any, ...]], place: int) -> str:
    """Return the type of a column's values, which need not be that of its declaration."""
    kinds = {type(row[place]) for row in rows} - {type(None)}
    if kinds == {int, float}:
        return "REAL"
    return _TYPES[kinds.pop()] if len(kinds) == 1 else "TEXT"


def fail(kind: str, line: int, problem: str) -> int:
    sys.stdout.flush()
    print(f"{kind} error near line {line}: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
