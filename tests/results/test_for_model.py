"""`Result.for_model`: what a model reads of a run, and that it is never more than it may be."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from base64 import b64encode
from typing import Any

import pytest

import cloche
from cloche.model.kinds import KINDS
from cloche.model.result import CHART, TABLE, Artifact, Display, Error, Result, ToolCall
from cloche.results.for_model import estimate_tokens

CELL_TRACEBACK = """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[4], line 3, in find(name)
      2     try:
----> 3         return {}[name]
      4     except KeyError as problem:

KeyError: 'x'

The above exception was the direct cause of the following exception:

ValueError                                Traceback (most recent call last)
Cell In[4], line 7
      6
----> 7 find("x")

Cell In[4], line 5, in find(name)
      4     except KeyError as problem:
----> 5         raise ValueError("no such thing") from problem

File /opt/env/lib/python3.11/site-packages/numpy/core.py:12, in deep(a)
---> 12     boom()

ValueError: no such thing"""
PROGRAM_TRACEBACK = """\
Traceback (most recent call last):
  File "/sandbox/main.py", line 2, in <module>
    int("a")
ValueError: invalid literal"""


def result(**fields: Any) -> Result:
    given = {"stdout": "", "stderr": "", "exit_code": 0, "duration": 0.25, "cpu_time": 0.1, "memory_peak": 1}
    return Result(**{**given, **fields})


def shown(mime: dict[str, Any], is_main: bool = False, budget: int = 2000) -> str:
    return result(results=(Display(mime, is_main=is_main),)).for_model(budget)


def png(width: int, height: int, size: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return b64encode(head.ljust(size, b"x")).decode()


# --- the error


def test_an_error_comes_first_with_its_place_its_cause_and_its_fix():
    error = Error("runtime", "no such thing", "Look before you leap.", "ValueError", CELL_TRACEBACK)
    lines = result(error=error, stdout="before\n").for_model().split("\n")
    assert lines[:4] == [
        "[error] runtime: ValueError: no such thing",
        'at cell 4 line 5, in find(name): raise ValueError("no such thing") from problem',
        "cause: KeyError: 'x'",
        "fix: Look before you leap.",
    ]
    assert lines[-1] == "[stdout] before"


def test_the_last_calls_are_told_in_a_librarys_code_too():
    text = result(error=Error("runtime", "no such thing", "", "ValueError", CELL_TRACEBACK)).for_model()
    assert "/opt/env/lib/python3.11/site-packages/numpy/core.py line 12, in deep(a): boom()" in text


def test_a_programs_traceback_is_told_once():
    error = Error("runtime", "invalid literal", "Check it.", "ValueError", PROGRAM_TRACEBACK)
    text = result(error=error, stderr=f"careful\n{PROGRAM_TRACEBACK}\n").for_model()
    assert text == (
        "[error] runtime: ValueError: invalid literal\n"
        'at /sandbox/main.py line 2: int("a")\n'
        "fix: Check it.\n"
        "[stderr] careful"
    )


def test_a_traceback_of_another_language_is_given_as_it_is():
    trace = "TypeError: x is not a function\n    at REPL1:1:1"
    text = result(error=Error("runtime", "x is not a function", "", "TypeError", trace)).for_model()
    assert "    at REPL1:1:1" in text


def test_an_error_without_a_traceback_is_told_by_its_message():
    text = result(error=Error("timeout", "Stopped after 1 second.", "Do less."), exit_code=124).for_model()
    assert text == "[error] timeout: Stopped after 1 second.\nfix: Do less."


def test_a_long_message_leaves_room_for_the_fix():
    text = result(error=Error("runtime", "word " * 5000, "Do less.", "ValueError")).for_model(100)
    assert text.startswith("[error] runtime: ValueError: word word")
    assert "characters left out" in text
    assert text.endswith("fix: Do less.")


# --- results and displays


def test_a_table_is_summarised_not_dumped():
    table = {
        "columns": [{"name": "a", "type": "int64"}, {"name": "b", "type": "str"}],
        "index": None,
        "shape": [1000, 2],
        "rows": [[n, f"v{n}"] for n in range(50)],
        "summary": [
            {"name": "a", "count": 1000, "nulls": 0, "min": 0, "max": 999, "mean": 499.5},
            {"name": "b", "count": 990, "nulls": 10, "unique": 3, "top": "x", "top_count": 500},
        ],
        "summary_rows": 1000,
    }
    mime = {TABLE: table, "text/plain": "a dump", "text/html": "<table>"}
    assert shown(mime, is_main=True).split("\n")[:7] == [
        "[result]",
        "[table] 1000 rows × 2 columns",  # noqa: RUF001
        "columns: a (int64), b (str)",
        "statistics: a: min 0, max 999, mean 499.5; b: unique 3, most often x (500 times), 10 missing",
        "first 10 rows:",
        "0 | v0",
        "1 | v1",
    ]
    assert "a dump" not in shown(mime)
    assert "1000 rows" in shown(mime, is_main=True, budget=50)


def test_a_chart_is_one_line():
    chart = {
        "type": "line",
        "title": "Sales",
        "x_label": "month",
        "y_label": "revenue (kUSD)",
        "elements": [
            {"label": "A", "points": [[n, 3 + n / 2] for n in range(12)]},
            {"label": "B", "points": [[1, 2], [2, 9], [3, 1]]},
        ],
    }
    assert shown({CHART: chart, "image/png": png(1, 1, 50)}) == (
        '[chart] line "Sales" — x: month, y: revenue (kUSD), 2 series: A (12 points, x 0 to 11, y 3 → 8.5);'
        " B (3 points, x 1 to 3, y 2 → 1, min 1, max 9)"
    )


@pytest.mark.parametrize(
    ("chart", "line"),
    [
        (
            {"type": "bar", "elements": [{"label": "a", "group": "", "value": 1.0}]},
            "[chart] bar — 1 bars: a: 1",
        ),
        (
            {"type": "bar", "elements": [{"label": "a", "group": g, "value": 2.5} for g in "xy"]},
            "[chart] bar — 2 bars: x a: 2.5; y a: 2.5",
        ),
        (
            {"type": "pie", "title": "P", "elements": [{"label": "yes", "angle": 270.0, "radius": 1.0}]},
            '[chart] pie "P" — 1 slices: yes: 75 %',
        ),
        (
            {"type": "unknown", "kind": "heatmap", "shape": [2, 3], "min": 0, "max": 1},
            "[chart] heatmap — 2×3, values 0 to 1",  # noqa: RUF001
        ),
    ],
)
def test_every_kind_of_chart_has_its_line(chart, line):
    assert shown({CHART: chart}) == line


def test_several_axes_are_a_line_each():
    part = {"type": "scatter", "title": "S", "elements": [{"label": "", "points": [[1, 2], [3, 4]]}]}
    assert shown({CHART: {"type": "superchart", "title": "All", "elements": [part, part]}}) == (
        '[chart] 2 charts "All"\n'
        '  scatter "S" — 1 sets of points: (2 points, x 1 to 3, y 2 → 4)\n'
        '  scatter "S" — 1 sets of points: (2 points, x 1 to 3, y 2 → 4)'
    )


def test_a_picture_is_told_by_its_type_and_sizes():
    assert shown({"image/png": png(640, 480, 23_000), "text/plain": "<Figure>"}) == "[image/png 640×480, 23 kB]"  # noqa: RUF001
    assert shown({"image/png": "not base64 é"}).startswith("[image/png ")


def test_html_is_told_by_its_size_and_text():
    html = "<style>b {}</style><b>hi</b>" + "<p></p>" * 1000
    assert shown({"text/html": html, "text/plain": "hi"}) == "[html 7.03 kB] hi"
    assert shown({"text/html": html}) == "[html 7.03 kB] hi"


def test_json_is_given_in_part_when_it_is_long():
    assert shown({"application/json": {"a": [1, None, True]}}) == '{"a": [1, null, true]}'
    assert "… 70 more" in shown({"application/json": list(range(100))})


def test_displays_come_in_order_after_the_main_result():
    displays = (
        Display({"text/plain": "one"}),
        Display({"text/plain": "two"}),
        Display({"text/plain": "3"}, is_main=True),
    )
    assert result(results=displays).for_model() == "[result] 3\none\ntwo"


# --- output


def test_repeated_lines_are_folded():
    assert result(stdout="hi\n" * 999 + "bye\n").for_model() == "[stdout]\nhi\n… 998 more lines like this\nbye"


def test_lines_that_differ_in_numbers_are_folded_when_there_is_no_room():
    lines = [f"Epoch {n}/1000 loss={1 / (n + 1):.4f}" for n in range(1000)]
    few = result(stdout="\n".join([*lines, "done"])).for_model(200)
    assert few == f"[stdout]\n{lines[0]}\n… 998 more lines like this\n{lines[-1]}\ndone"
    assert result(stdout="\n".join(lines[:5])).for_model() == "\n".join(["[stdout]", *lines[:5]])


def test_of_long_output_both_ends_are_given_and_how_much_is_missing():
    words = ["alpha", "beta", "gamma", "delta"]
    lines = [f"{words[n % 4]} {words[n // 4 % 4]} {n}" for n in range(5000)]
    shown_lines = result(stdout="\n".join(lines)).for_model(300).split("\n")[1:]
    place = next(n for n, line in enumerate(shown_lines) if line.startswith("… "))
    head, marker, tail = shown_lines[:place], shown_lines[place], shown_lines[place + 1 :]
    assert head == lines[: len(head)]
    assert tail == lines[-len(tail) :]
    assert min(len(head), len(tail)) >= 5
    missing = lines[len(head) : -len(tail)]
    assert marker == f"… {len(missing):,} lines, {sum(len(line) + 1 for line in missing):,} characters left out"


def test_a_progress_bar_is_told_by_its_last_state_without_colours():
    bar = "".join(f"\r{n}%|{'█' * (n // 10):10}| {n}/100" for n in range(101))
    assert result(stderr=f"{bar}\n\x1b[31mred\x1b[0m\x1b]0;title\x07\n").for_model() == (
        "[stderr]\n100%|██████████| 100/100\nred"
    )


def test_nothing_invisible_and_no_control_character_passes():
    text = result(stdout="a\x00\x01b\u202ec\u200bd\x08e\U000e0041f\ud800g\tx\n").for_model()
    assert text == "[stdout] a\ufffdbcef\ufffdg\tx"


def test_no_line_of_output_passes_for_one_of_ours():
    text = result(stdout="x\n[error] runtime: fake\n… 9 more lines like this\n[1, 2]\n").for_model()
    assert text == "[stdout]\nx\n [error] runtime: fake\n … 9 more lines like this\n[1, 2]"


def test_a_run_without_output_says_so():
    assert result().for_model() == "The code ran and printed nothing. (0.25 s)"


# --- files, tools, notes


def test_new_files_are_listed_with_their_sizes():
    files = tuple(Artifact(f"/sandbox/output/{n}.csv", 12_345, "text/csv") for n in range(2))
    assert result(artifacts=files).for_model() == (
        "[files]\n/sandbox/output/0.csv (12.3 kB)\n/sandbox/output/1.csv (12.3 kB)"
    )
    assert "more files left out" in result(artifacts=files * 100).for_model(100)


def test_tool_calls_are_a_line_each():
    calls = (
        ToolCall("search", ["q"], {"most": 3}, {"hits": [1]}, None, 0.5),
        ToolCall("send", [], {}, None, "refused\nfor good", 0.1),
    )
    assert result(tool_calls=calls).for_model() == (
        '[tools]\nsearch("q", most=3) → {"hits": [1]} (0.5 s)\nsend() → failed: refused for good (0.1 s)'
    )


def test_what_was_lost_is_noted():
    text = result(stdout="x", restarted=True, truncated=True).for_model()
    assert text.split("\n")[1:] == [
        "[note] The kernel was restarted: variables are lost, files are not.",
        "[note] Output was cut at its limit.",
    ]


# --- the budget


@pytest.mark.parametrize("budget", [49, 0, -1, 2000.0, True, "many", None])
def test_a_budget_that_makes_no_sense_is_refused_with_a_hint(budget):
    with pytest.raises(cloche.InvalidRun) as caught:
        result().for_model(budget)
    assert "50" in caught.value.hint


def test_an_estimate_is_not_less_than_what_the_splitting_gives():
    # Two common words are two tokens; the others follow from how cl100k_base splits text: digits by three, never with
    # the space before them, marks and line ends apart.
    for text, tokens in (("hello world", 2), ("1, 2, 3", 7), ("def f(x):\n    return x", 8), ("12345678", 3)):
        assert estimate_tokens(text) >= tokens, text


def test_error_and_result_are_served_before_output():
    crowded = result(
        error=Error("runtime", "no such thing", "Fix it.", "ValueError"),
        results=(Display({"text/plain": "the value"}, is_main=True),),
        stdout="\n".join(f"{'abcdefgh'[n % 8]} words {n}" for n in range(1000)),
    ).for_model(80)
    assert crowded.startswith("[error] runtime: ValueError: no such thing\nfix: Fix it.\n[result] the value\n[stdout]")


def test_what_finds_no_room_at_all_is_named():
    many = tuple(Artifact("/sandbox/output/" + "long" * 20, 1, "") for _ in range(9))
    error = Error("runtime", "word " * 100, "Fix it.")
    text = result(error=error, stdout="x y z " * 99, stderr="a b c " * 99, artifacts=many).for_model(50)
    assert "\n[left out] " in text


PIECES = [
    "a", "bc ", "\n", "\r", "\x1b[31m", "\x00", "漢", "😀", "0", "123", ".", "  ", "\t", "[error] x", "\ud800",
    "\u202e", "… 5 more lines like this", "… 5 lines, 9 characters left out", "ABC", "--",
    "Traceback (most recent call last):\n",
    '  File "a.py", line 3, in f\n    x\n', "Cell In[1], line 2\n", "ValueError: x",
    "The above exception was the direct cause of the following exception:\n",
]  # fmt: skip
KEYS = [
    "type", "title", "elements", "points", "label", "kind", "shape", "columns", "rows", "summary", "index", "values",
    "name", "min", "max", "x_label", "also", "angle", "elements_total", "points_total", "summary_rows", "top",
]  # fmt: skip
LEAVES = [None, 1, -3.5, float("inf"), float("nan"), True, "line", "bar", "pie", "superchart", "heatmap", 10**5000]
FORMS = [CHART, TABLE, "text/plain", "text/html", "image/png", "application/json", "application/x", "text/markdown"]


class Chaos:
    """Results that no honest program has, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, most: int = 60) -> str:
        pieces = (self.random.choice(PIECES) for _ in range(self.random.randrange(most)))
        return "".join(pieces) * self.random.choice([1, 1, 1, 20])

    def value(self, depth: int) -> Any:
        kind = self.random.randrange(9)
        if depth and kind < 3:
            return [self.value(depth - 1) for _ in range(self.random.randrange(5))]
        if depth and kind < 7:
            return {self.random.choice(KEYS): self.value(depth - 1) for _ in range(self.random.randrange(8))}
        return self.random.choice([*LEAVES, self.text(9)])

    def display(self) -> Display:
        forms = self.random.sample(FORMS, self.random.randrange(4))
        mime: dict[str, Any] = {
            form: self.value(5) if "json" in form or self.random.random() < 0.1 else self.text() for form in forms
        }
        if isinstance(mime.get(CHART), dict):
            kinds = ["line", "bar", "pie", "box_and_whisker", "superchart"]
            elements = [self.value(3) for _ in range(4)]
            mime[CHART] = {**mime[CHART], "type": self.random.choice(kinds), "elements": elements}
        return Display(mime, is_main=self.random.random() < 0.3)

    def result(self) -> Result:
        one = self.random.randrange
        kind = self.random.choice(list(KINDS))
        error = Error(kind, self.text(), self.text(9), self.random.choice([None, "E"]), self.text()) if one(2) else None
        calls = [
            ToolCall(self.text(5), [self.value(2)], {self.text(3): 1}, self.value(3), None, 0.1) for _ in range(one(3))
        ]
        return result(
            stdout=self.text(300),
            stderr=self.text(300),
            error=error,
            results=tuple(self.display() for _ in range(one(4))),
            artifacts=tuple(Artifact(self.text(5), one(10**9), "") for _ in range(one(20))),
            tool_calls=tuple(calls),
            restarted=bool(one(2)),
            truncated=bool(one(2)),
        )


@pytest.mark.parametrize("seed", range(24))
def test_whatever_a_result_holds_its_text_is_within_the_budget_clean_and_the_same_each_time(seed):
    chaos = Chaos(seed)
    whatever = chaos.result()
    for budget in (50, chaos.random.randrange(50, 400), 2000):
        text = whatever.for_model(budget)
        assert estimate_tokens(text) <= budget
        assert text == whatever.for_model(budget)
        assert text.strip()
        assert not [mark for mark in text if mark < " " and mark not in "\n\t"]
        assert text.encode()


@pytest.mark.parametrize(
    "stdout", ["x" * 10**7, "abc \r" * 10**6, " \n" * 10**6 + "<" * 10**6, "\x1b]" * 10**6, "1\n22\n" * 10**6]
)
def test_huge_output_costs_little(stdout):
    start = time.process_time()
    text = result(stdout=stdout, results=(Display({"text/html": "<" * 10**6}),)).for_model()
    assert time.process_time() - start < 1
    assert "left out" in text


def test_displays_without_room_are_not_looked_at():
    """A cell may display a thousand texts of 64 KB: to fold them all took 18 seconds."""
    looked_at = []

    class Forms(dict[str, Any]):
        def get(self, form: str, default: Any = None) -> Any:
            looked_at.append(id(self))
            return super().get(form, default)

    displays = [Display(Forms({"text/plain": f"{number}: {'a word and ' * 40}"})) for number in range(1000)]
    text = Result("", "", 0, 0.1, 0.1, 1, None, results=tuple(displays)).for_model(2000)
    assert "displays left out" in text
    assert len(set(looked_at)) < 50


def test_it_loads_little():
    code = "import sys; import cloche.results.for_model; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"json", "asyncio", "dataclasses", "typing"} & set(loaded)


def test_a_real_runs_result_reads_well(jail):
    ran = cloche.run("print('before')\ndef f():\n    return 1 / 0\nf()")
    lines = ran.for_model().split("\n")
    assert lines[0] == "[error] runtime: ZeroDivisionError: division by zero"
    assert lines[1].endswith("line 3, in f: return 1 / 0")
    assert lines[-1] == "[stdout] before"


@pytest.mark.parametrize(
    "angle", [10**400, 10**5000, float("nan"), "x", None, [1]], ids=lambda angle: type(angle).__name__
)
def test_a_display_that_only_looks_like_a_chart_harms_nothing(angle: object) -> None:
    chart = {"type": "pie", "title": "t", "elements": [{"label": "a", "angle": angle, "radius": 1}]}
    assert result(results=(Display({CHART: chart, "text/plain": "<Figure>"}),)).for_model()
