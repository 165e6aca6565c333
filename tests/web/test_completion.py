"""What helps people who type Python in the playground: asked in a real sandbox, as the page does it."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps, loads
from pathlib import Path
from typing import Any

import pytest

import cloche

SOURCE = Path(__file__).parent.parent.parent / "web/src/parts/editor/python/completion.py"
TEXT = """import numpy as np
import pandas as pd
import mine
df = pd.read_csv("x.csv")
array = np.arange(3)

class Plant:
    def __init__(self, height):
        self.height = height

    def grow(self, by=1):
        '''Higher.'''

fern = Plant(3)
"""


class Helper:
    """The process that answers."""

    def __init__(self, box: cloche.Sandbox) -> None:
        self._process = box.commands.start(["python3", "-c", SOURCE.read_text()])
        self._count = 0

    def ask(self, kind: str, tail: str, **more: str) -> list[dict[str, Any]]:
        """What it finds at the end of the text."""
        self._count += 1
        text = TEXT + tail
        lines = text.split("\n")
        where = {"path": "/sandbox/code/main.py", "text": text, "line": len(lines), "column": len(lines[-1])}
        self._process.write(dumps({"id": self._count, "kind": kind, **where, **more}).encode() + b"\n")
        told = b""
        for event in self._process:
            if event.kind == "stdout":
                told += event.data
            assert event.kind in ("started", "stdout"), event
            if told.endswith(b"\n"):
                break
        answer = loads(told)
        assert answer["id"] == self._count
        assert "problem" not in answer, answer["problem"]
        found: list[dict[str, Any]] = answer["found"]
        return found

    def names(self, tail: str) -> list[str]:
        """What could stand there."""
        return [one["name"] for one in self.ask("complete", tail)]


@pytest.fixture(scope="module")
def helper(jail: None) -> Iterator[Helper]:
    """One that knows of a file of the person's, which says so if it is ever run."""
    mine = "def tended(plant, often=True):\n    '''Cared for.'''\nopen('/sandbox/ran', 'w')\n"
    with cloche.Sandbox() as box:
        box.files.write("code/mine.py", mine)
        yield Helper(box)
        assert not box.files.exists("ran")


def test_names_are_completed_by_what_they_stand_for(helper: Helper) -> None:
    assert helper.names("pd.read_cs") == ["read_csv"]
    assert helper.names("df.descr") == ["describe"]
    assert helper.names('df["a"].str.low') == ["lower"]
    assert helper.names("df[df.a > 3].hea") == ["head"]
    assert helper.names("array.resh") == ["reshape"]
    assert helper.names("from pandas import DataFr") == ["DataFrame"]
    assert "numpy" in helper.names("import num")
    assert helper.names("pri") == ["print"]
    assert helper.names("unknown.") == []


def test_what_the_person_wrote_is_read_and_never_run(helper: Helper) -> None:
    assert helper.names("fern.gr") == ["grow"]
    assert helper.names("fern.hei") == ["height"]
    assert helper.names("mine.te") == ["tended"]
    assert helper.ask("definition", "mine.tended") == [{"path": "/sandbox/code/mine.py", "line": 1, "column": 0}]
    assert helper.ask("signature", "mine.tended(1, ")[0]["active"] == 1
    assert helper.ask("hover", "fern.grow") == [{"signature": "def grow(self, by=1)", "text": "Higher."}]


def test_what_is_pointed_at_is_explained(helper: Helper) -> None:
    told = helper.ask("hover", "pd.read_csv")[0]
    assert told["signature"].startswith("read_csv(filepath_or_buffer")
    assert "comma-separated" in told["text"]
    assert helper.ask("describe", "df.descr", name="describe")[0]["text"].startswith("Generate descriptive")
    assert helper.ask("signature", "pd.read_csv('x', sep=")[0]["parameters"][1].startswith("sep")
    assert helper.ask("complete", "def broken(:\n    x = (")[:1] == []
