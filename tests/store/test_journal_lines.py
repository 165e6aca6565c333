"""A fact survives being written as a line and read back."""

from __future__ import annotations

import json

import pytest
from tests.store.facts import audit, run, sandbox

from cloche.model.records import Fact
from cloche.store import journal_lines

FACTS: list[Fact] = [
    run("r1"),
    run("r1", "done", result=json.dumps({"stdout": "a\tb\nc"})),
    run("r1", "done", result=json.dumps({"stdout": "é\ud800\r\u2028"}, ensure_ascii=False)),
    run("r1", "done", result=json.dumps({"pretty": ["\t"]}, indent=1)),
    run("r1", "done", result=""),
    run("r1", "done", result="\t"),
    run("r1", "failed", limits={"timeout": float("inf")}, cpu_time=0.1 + 0.2, error_kind="é\t\n\0"),
    sandbox("s1", metadata={"\n": "\t\ud800"}, expires=1.5),
    audit("a1", details={"a": [1, None, {"b": "\n"}]}),
]


@pytest.mark.parametrize("fact", FACTS, ids=range(len(FACTS)))
def test_a_fact_is_one_line_and_comes_back(fact: Fact) -> None:
    line = journal_lines.encode(fact)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert journal_lines.decode(line) == fact


@pytest.mark.parametrize("fact", FACTS, ids=range(len(FACTS)))
def test_a_part_of_a_line_is_never_taken_for_another_fact(fact: Fact) -> None:
    line = journal_lines.encode(fact)
    head = line.partition(b"\t")[0]
    assert all(journal_lines.decode(line[:length]) is None for length in range(len(head) - 1))
