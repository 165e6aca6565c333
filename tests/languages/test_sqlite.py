"""SQLite: its dialect, its errors, and the names of other databases."""

from __future__ import annotations

import pytest

import cloche
from cloche import languages
from cloche.model.result import Diagnostic

SHOP = """-- a shop; with a comment
/* and
another; */
.headers on
CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT); INSERT INTO t(name) VALUES ('a;b'),
  ('c');
CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET name='z'; END;
SELECT id, name, 2.5 AS half FROM t WHERE name = ?1;;
INSERT INTO t(id) VALUES (1)"""


@pytest.mark.usefixtures("jail")
def test_it_runs_the_dialect_of_sqlite() -> None:
    result = cloche.run(SHOP, language="sqlite", args=["a;b"])
    table = "id | name | half\n---+------+-----\n 1 | a;b  |  2.5\n(1 row)\n\n"
    assert result.stdout == f"CREATE TABLE\nINSERT: 2 rows\nCREATE TRIGGER\n{table}"
    assert result.results[0].table["rows"] == [[1, "a;b", 2.5]]
    assert result.stderr == "Runtime error near line 9: UNIQUE constraint failed: t.id\n"
    assert (result.error.kind, result.error.message) == ("runtime", "UNIQUE constraint failed: t.id")


@pytest.mark.usefixtures("jail")
def test_a_syntax_error_has_its_line() -> None:
    result = cloche.run("SELECT 1;\n\nSELEC 2;", language="sqlite3")
    message = 'near "SELEC": syntax error'
    assert (result.error.kind, result.diagnostics) == ("syntax", (Diagnostic("main.sqlite", 3, 0, message),))
    shell = cloche.run(".tables", language="sqlite")
    assert shell.error.message == ".tables is a command of the sqlite3 program, not SQL"


@pytest.mark.usefixtures("jail")
def test_sql_that_duckdb_cannot_read_says_what_it_runs_on() -> None:
    result = cloche.run("CREATE TABLE t (id INT AUTO_INCREMENT)", language="sql")
    assert "SQL runs on DuckDB" in result.stderr
    assert result.error.message == 'syntax error at or near "AUTO_INCREMENT"'


@pytest.mark.parametrize("name", ["mysql", "MariaDB", "postgres", "postgresql", "psql", "tsql", "plsql"])
def test_other_databases_are_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(cloche.InvalidRun, match=r"SQL runs on DuckDB, .* or on SQLite") as caught:
        languages.find(name)
    assert caught.value.hint == 'Use language="sql" for DuckDB, or language="sqlite".'


@pytest.mark.parametrize(
    ("name", "hint"),
    [("pyhton", "python"), ("javscript", "javascript"), ("sqlit", "sqlite"), ("rubby", "ruby")],
)
def test_the_nearest_names_are_suggested(name: str, hint: str) -> None:
    with pytest.raises(cloche.InvalidRun) as caught:
        languages.find(name)
    assert caught.value.hint.startswith(f"Did you mean {hint}? Known languages: bash, ")
    with pytest.raises(cloche.InvalidRun) as caught:
        languages.find("cobol")
    assert caught.value.hint.startswith("Known languages: bash, ")
