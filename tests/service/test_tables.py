"""Rows of tables: of those that a session displayed, and of those in files, within limits that are exceeded here."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

import cloche
from cloche.engine import tables
from cloche.errors import FileMissing, Gone, InvalidRun, Refused
from cloche.model.result import TABLE
from cloche.service.tables import Window

pytestmark = [pytest.mark.usefixtures("jail"), pytest.mark.asyncio(loop_scope="module")]

Answer = dict[str, Any]
PANDAS = """
import pandas as pd, numpy as np
n = np.arange(3000)
frame = pd.DataFrame({"value": n / 7, "word": [f"Row {i}" for i in n],
                      "day": pd.date_range("2020-01-01", periods=3000, tz="Europe/Berlin"),
                      "mixed": [None, 1, "one"] * 1000},
                     index=pd.MultiIndex.from_arrays([n % 10, n], names=["group", "item"]))
"""
POLARS = """
import polars as pl
other = pl.from_pandas(frame.drop(columns="mixed")).with_columns(pair=pl.Series([[i, i + 1] for i in range(3000)]))
"""


WRITE = """
import os
some = frame[["value", "word"]].reset_index(drop=True).head(500)
some.to_csv("a.csv", index=False); some.to_csv("b.tsv", index=False, sep="\\t"); some.to_parquet("c.parquet")
some.to_csv("semicolons.csv", index=False, sep=";")
some.to_json("e.json", orient="records"); some.to_json("f.jsonl", orient="records", lines=True)
with pd.ExcelWriter("d.xlsx") as book:
    some.to_excel(book, sheet_name="One", index=False); some.tail(2).to_excel(book, sheet_name="Two", index=False)
open("no.json", "w").write('{"not": "a list"}'); open("no.parquet", "w").write("no"); open("empty.csv", "w")
open("ragged.csv", "w").write("a,b\\n1,2\\n1,2,3\\n4,5\\n"); os.mkfifo("pipe.csv")
open("huge.csv", "w").truncate(900 << 20)
import json; json.dump([{f"k{i}": 1} for i in range(20_000)], open("bomb.json", "w"))
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[cloche.AsyncSandbox]:
    async with cloche.AsyncSandbox(memory="1G") as sandbox:
        result = await sandbox.run(PANDAS)
        assert result.ok, result.error
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def files(box: cloche.AsyncSandbox) -> None:
    """Files of every kind, in the sandbox."""
    written = await box.run(WRITE)
    assert written.ok, written.error


@pytest.fixture
def rows(box: cloche.AsyncSandbox) -> Callable[..., Awaitable[Answer]]:
    """Rows of the table with an id, or of a file."""

    async def read(table: str, **window: Any) -> Answer:
        source = {"path": table, "sheet": window.pop("sheet", None)} if "." in table else {"table": table}
        return await tables.rows(box, {**source, "context": "python", **Window(**window).request()})

    return read


async def shown(box: cloche.AsyncSandbox, code: str) -> str:
    """The id of a table that code displays."""
    result = await box.run(code)
    assert result.ok, result.error
    return str(result.results[-1].mime[TABLE]["id"])


async def test_a_window_has_the_rows_labels_and_numbers_of_all_of_a_table(box, rows):
    found = await rows(await shown(box, "frame"), offset=2998, limit=100)
    assert (found["shape"], found["matched"], found["count"]) == ([3000, 4], 3000, 2)
    assert found["index"] == {"names": ["group", "item"], "type": "multiindex", "values": [[8, 2998], [9, 2999]]}
    assert found["numbers"] == [2998, 2999]
    assert found["rows"][1] == [2999 / 7, "Row 2999", "2028-03-18T00:00:00+01:00", "one"]


@pytest.mark.parametrize(
    ("window", "numbers"),
    [
        ({"sort": {"column": 0, "descending": True}}, [2999, 2998]),
        ({"sort": {"column": 1}}, [0, 1]),
        ({"sort": {"column": -1}, "offset": 300}, [1, 11]),
        ({"sort": {"column": 3}}, [1, 4]),  # of values that have no order: as texts
        ({"sort": {"column": 3}, "offset": 2000}, [0, 3]),  # missing values come last
        ({"filters": [{"column": 1, "how": "contains", "value": "ROW 77"}]}, [77, 770]),
        ({"filters": [{"column": 0, "how": ">=", "value": "100"}]}, [700, 701]),
        ({"filters": [{"column": 2, "how": ">", "value": "2021-01-01"}]}, [367, 368]),
        ({"filters": [{"column": -1, "how": "=", "value": "3"}, {"column": 0, "how": "<", "value": "2"}]}, [3, 13]),
        ({"filters": [{"column": 3, "how": "missing"}]}, [0, 3]),
        ({"filters": [{"column": 3, "how": "!=", "value": "one"}]}, [1, 4]),
        ({"search": "row 1234"}, [1234]),
        ({"search": "2020-02-29"}, [59]),
        ({"search": "2020-02-29 00:00:00+01"}, [59]),
        ({"search": "0.142857142857"}, [1, 71]),
        ({"filters": [{"column": 0, "how": "contains", "value": "428.0"}]}, [2996]),  # as Python writes it
        ({"search": "nowhere"}, []),
    ],
)
async def test_rows_are_sorted_and_filtered_over_the_whole_table(box, rows, window, numbers):
    found = await rows(await shown(box, "frame"), limit=2, **window)
    assert found["numbers"] == numbers


async def test_tables_of_polars_are_read_as_well(box, rows):
    table = await shown(box, POLARS + "other")
    assert (await rows(table, limit=1, sort={"column": 0, "descending": True}))["rows"][0][3] == "[2999, 3000]"
    assert (await rows(table, limit=9, search="row 1234"))["numbers"] == [1234]
    assert (await rows(table, limit=1, filters=[{"column": 2, "how": ">=", "value": "2020-01-03"}]))["numbers"] == [2]
    assert (await rows(table, limit=1, sort={"column": 3}))["numbers"] == [0]
    assert (await rows(table, limit=1, form="tsv"))["text"].splitlines()[0] == "value\tword\tday\tpair"


async def test_a_table_is_exported_with_all_its_digits_texts_and_columns(box, rows):
    table = await shown(
        box, "wide = pd.DataFrame({f'c{i}': ['x' * 300] * 20 for i in range(250)}); wide['f'] = 1 / 3; wide"
    )
    pieces, count = [], 0
    while count < 20:
        found = await rows(table, offset=count, limit=20, form="csv", header=count == 0)
        pieces.append(found["text"])
        count += found["count"]
    assert len(pieces) > 1  # an answer is bounded
    expected = await box.run("print(wide.to_csv(index=False), end='')")
    assert "".join(pieces) == expected.stdout
    assert list(csv.reader(io.StringIO(expected.stdout)))[1][-2:] == ["x" * 300, "0.3333333333333333"]


async def test_a_table_stays_as_it_was_displayed(box, rows):
    table = await shown(
        box, "copy = frame.copy(); display(copy); copy['value'] = 0; copy.loc[:, 'word'] = ''; del copy"
    )
    assert (await rows(table, limit=1, filters=[{"column": 1, "how": "=", "value": "row 7"}]))["rows"][0][0] == 1.0


async def test_a_table_is_gone_after_a_restore_and_no_other_one_has_its_id(box, rows):
    before = await box.checkpoint()
    undone = await shown(box, "frame.iloc[:100]")
    await box.restore(before)
    later = await shown(box, "frame.iloc[:200]")
    with pytest.raises(Gone, match="no longer holds this table"):
        await rows(undone)
    assert (await rows(later))["shape"] == [200, 4]


async def test_only_the_last_tables_are_kept_and_large_ones_while_the_code_keeps_them(box, rows):
    first = await shown(box, "display(frame)")
    last = await shown(box, "for _ in range(20): display(frame)")
    large = await shown(box, "large = pd.DataFrame({'n': np.arange(5_000_000)}); display(large)")
    assert (await rows(last, limit=1))["count"] == 1
    with pytest.raises(Gone, match="no longer holds this table"):
        await rows(first)
    assert (await rows(large, limit=1, offset=4_999_999))["rows"] == [[4_999_999]]
    assert (await box.run("del large; import gc; gc.collect()")).ok
    with pytest.raises(Gone, match="no longer holds this table"):
        await rows(large)


async def test_what_cannot_be_compared_is_refused_with_a_sentence(box, rows):
    table = await shown(box, "frame")
    with pytest.raises(InvalidRun, match="“many” cannot be compared with this column"):
        await rows(table, filters=[{"column": 0, "how": ">", "value": "many"}])
    with pytest.raises(InvalidRun, match="no column 40"):
        await rows(table, sort={"column": 40})


async def test_values_that_take_forever_are_interrupted_and_the_session_goes_on(box, rows, monkeypatch):
    code = "class Slow:\n    def __repr__(self): import time; time.sleep(60 if slow else 0); return 'slow'\n"
    table = await shown(box, f"slow = False\n{code}pd.DataFrame({{'v': [Slow()] * 100}})")
    await box.run("slow = True")
    monkeypatch.setattr(tables, "SORT_S", 0.3)
    with pytest.raises(Refused, match="took too long"):
        await rows(table, search="x")
    assert (await box.run("slow = False; len(frame)")).text == "3000"


async def test_a_session_that_runs_code_says_so(box, rows):
    table = await shown(box, "frame")
    events = box.stream("input()", interactive=True)
    async for event in events:
        if event.kind == "started":
            with pytest.raises(Refused, match="The session is running code"):
                await rows(table)
            await events.write("done\n")
    assert (await rows(table, limit=1))["count"] == 1


async def test_files_are_read_as_tables_by_a_process_of_their_own(box, rows, files, monkeypatch):
    monkeypatch.setattr(tables, "READ_S", 0.01)
    with pytest.raises(Refused, match="Reading this file took too long"):
        await rows("a.csv")
    monkeypatch.undo()
    for name in ("a.csv", "semicolons.csv", "b.tsv", "c.parquet", "d.xlsx", "e.json", "f.jsonl"):
        found = await rows(name, limit=1, sort={"column": 0, "descending": True})
        assert (found["shape"], found["rows"][0][1]) == ([500, 2], "Row 499"), name
    assert (await rows("d.xlsx"))["sheets"] == ["One", "Two"]
    assert (await rows("d.xlsx", sheet="Two"))["shape"] == [2, 2]
    assert (await rows("empty.csv"))["shape"] == [0, 0]
    ragged = await rows("ragged.csv")
    assert (ragged["rows"], ragged["note"]) == (
        [[1, 2], [4, 5]],
        "Lines with more values than the first line has are left out.",
    )
    await box.files.write("a.csv", "new\n1\n")
    assert (await rows("a.csv"))["rows"] == [[1]]


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("none.csv", FileMissing, "No such file"),
        ("no.json", InvalidRun, "not a list of objects"),
        ("no.parquet", InvalidRun, "cannot be read as a table"),
        ("pipe.csv", InvalidRun, "Only regular files"),
        ("huge.csv", Refused, "more memory to be read as a table than the sandbox has left"),
        ("bomb.json", Refused, "more memory to be read as a table than the sandbox has left"),
    ],
)
async def test_a_file_that_is_no_table_or_too_large_gives_a_sentence(box, rows, files, name, kind, sentence):
    with pytest.raises(kind, match=sentence):
        await rows(name)
    assert (await box.run("len(frame)")).text == "3000"


async def test_a_reader_that_is_killed_is_replaced(box, rows, files):
    await rows("e.json")
    killed = await box.run(
        "import os, signal\n"
        "mine = {os.getpid(), os.getppid(), 1}\n"
        "others = [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) not in mine]\n"
        "for one in others: os.kill(one, signal.SIGKILL)\nlen(others) > 0"
    )
    assert killed.text == "True"
    with suppress(Refused):  # it may still be dying
        await rows("e.json")
    assert (await rows("e.json"))["count"] == 100


async def test_an_answer_that_makes_no_sense_is_refused(box, rows):
    table = await shown(box, "frame")
    lie = (
        "import sys\nkept = sys.modules.get('cloche.kernels.kept_tables')\n"
        "import gc\nfound = [o for o in gc.get_objects() if type(o).__name__ == 'Rows']\n"
        "for one in found: type(one).answer = lambda self, request: {LIE}\nlen(found) > 0"
    )
    result = await box.run(lie.replace("LIE", "'shape': ['x', 1], 'matched': 1, 'offset': 0, 'rows': []"))
    if result.text != "True":
        pytest.skip("a session cannot reach the code that keeps its tables")
    with pytest.raises(cloche.SandboxFailed, match="makes no sense"):
        await rows(table)
