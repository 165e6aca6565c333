"""SQL: results as tables, data files as tables, and errors with their places."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.result import Diagnostic

SALES = "city,total\nBerlin,3\nParis,4.5\nBerlin,1\n"


@pytest.fixture(autouse=True)
def _sql(jail: None) -> None:
    needs("sql")


def test_every_statement_says_what_it_did_or_found() -> None:
    result = cloche.run(
        """-- a comment; with a semicolon
CREATE TABLE t (a INT, b VARCHAR, c DECIMAL(5, 2), d DATE);
INSERT INTO t VALUES (1, 'x;y', 1.5, '2020-01-01'), (2, NULL, 2.25, NULL);
UPDATE t SET a = a + 10 WHERE b IS NULL;
SELECT * FROM t ORDER BY a;
INSERT INTO t (a) VALUES (3) RETURNING a * 2 AS twice;
""",
        language="sql",
    )
    assert result.error is None
    assert result.stdout == (
        "CREATE TABLE\nINSERT: 2 rows\nUPDATE: 1 row\n"
        "a  | b    | c    | d\n---+------+------+-----------\n"
        " 1 | x;y  | 1.50 | 2020-01-01\n12 | NULL | 2.25 | NULL\n(2 rows)\n\n"
        "twice\n-----\n    6\n(1 row)\n\n"
    )
    first, second = result.results
    assert first.table["columns"][2] == {"name": "c", "type": "DECIMAL(5,2)"}
    assert first.table["rows"] == [[1, "x;y", 1.5, "2020-01-01"], [12, None, 2.25, None]]
    assert (first.table["shape"], first.table["truncated"], first.table["index"]) == ([2, 4], False, None)
    assert first.table["summary"][0] == {"name": "a", "count": 2, "nulls": 0, "min": 1, "max": 12, "mean": 6.5}
    assert "<td>x;y</td>" in first.html
    assert "2.25" in first.text
    assert second.table["rows"] == [[6]]


def test_data_files_are_tables(box: cloche.Sandbox) -> None:
    box.files.write("data/sales.csv", SALES)
    box.files.write("data/Ümlaut.jsonl", '{"a": [1, 2]}\n{"a": []}\n')
    box.files.write(
        "report.sql", "SELECT city, sum(total) AS s FROM Sales GROUP BY city HAVING s > $1::INT ORDER BY 1;"
    )
    result = box.run_program(entry="report.sql", args=["1"])
    assert [display.table["rows"] for display in result.results] == [[["Berlin", 4.0], ["Paris", 4.5]]]
    result = box.run_program(
        """COPY (SELECT * FROM 'data/sales.csv') TO 'output/sales.parquet';
SELECT count(*) FROM 'output/sales.parquet';
SELECT len(a) FROM "Ümlaut";
SELECT max(total) FROM 'sales.csv';
SELECT sum(p) FROM read_csv('/dev/stdin');
ATTACH 'kept.db' AS lasting;
CREATE TABLE lasting.t AS SELECT 1;""",
        language="sql",
        stdin="p\n1\n2\n",
    )
    assert result.error is None
    assert [display.table["rows"] for display in result.results] == [[[3]], [[2], [0]], [[4.5]], [[3]]]
    assert "COPY: 3 rows" in result.stdout
    again = box.run_program("ATTACH 'kept.db'; FROM kept.t", language="sql")
    assert again.results[0].table["rows"] == [[1]]


def test_big_results_are_cut_but_counted() -> None:
    result = cloche.run("SELECT range AS n, repeat('x', 300) AS wide FROM range(30000)", language="sql")
    assert result.stdout.count("\n") == 100 + 4
    assert "(30000 rows, 29900 of them not shown)" in result.stdout
    table = result.results[0].table
    assert (table["shape"], len(table["rows"]), table["truncated"]) == ([30000, 2], 50, True)
    assert table["summary"][0]["max"] == table["summary_rows"] - 1


@pytest.mark.parametrize(
    ("code", "kind", "name", "place"),
    [
        ("SELECT 1;\n\n  SELEC 2;", "syntax", "Parser Error", (3, 3)),
        ("CREATE TABLE t (id INT ENGINE);", "syntax", "Parser Error", (1, 24)),
        ("SELECT 1;\nSELECT\n  nope FROM (SELECT 1 AS a);", "runtime", "Binder Error", None),
        ("SELECT * FROM nowhere", "runtime", "Catalog Error", None),
        ("SELECT CAST('a' AS INT)", "runtime", "Conversion Error", None),
    ],
)
def test_errors_are_reported_with_their_place(code: str, kind: str, name: str, place: tuple[int, int] | None) -> None:
    result = cloche.run(code, language="sql")
    assert (result.exit_code, result.error.kind, result.error.name) == (1, kind, name)
    if place is not None:
        assert result.diagnostics == (Diagnostic("main.sql", *place, result.error.message),)
    if name == "Binder Error":
        assert "LINE 3:   nope" in str(result.error.traceback)
        assert result.stdout.startswith("1\n-\n1\n")
