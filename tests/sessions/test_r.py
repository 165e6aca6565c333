"""Cells in R: variables stay, plots and the last value are shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.events import Waiting

Run = Callable[..., cloche.Result]


@pytest.fixture
def r(box: cloche.Sandbox) -> Run:
    needs("r")
    return lambda code, timeout=30, **options: box.run(code, language="r", timeout=timeout, **options)


def test_variables_stay_and_the_last_value_is_the_result(r: Run) -> None:
    assert r("x <- 41; cat('größe\\n'); message('aside')").results == ()
    result = r("x\nprint('between')\ndata.frame(a = c(x, x + 1))")
    assert result.stdout == '[1] 41\n[1] "between"\n'
    assert [(display.text, display.is_main) for display in result.results] == [("   a\n1 41\n2 42", True)]
    assert result.execution_count == 2
    assert r("Sys.getenv('GIVEN')", env={"GIVEN": "a ü", "EMPTY": ""}).results[0].text == '[1] "a ü"'
    assert r("Sys.getenv('GIVEN')").results[0].text == '[1] ""'


def test_plots_are_shown_cell_by_cell(r: Run) -> None:
    result = r("plot(1:3)\nhist(c(1, 2, 2))\ninvisible(1)")
    assert [list(display.mime) for display in result.results] == [["image/png"]] * 2
    assert result.results[0].data("image/png").startswith(b"\x89PNG")
    assert r("dev.new()").results == ()


def test_what_goes_wrong_is_told_and_nothing_is_lost(r: Run) -> None:
    result = r("kept <- 7\nf <- function(n) g(n)\ng <- function(n) stop('boom ', n)\nlog(-1)\nf(3)")
    assert (result.stdout, result.stderr) == ("[1] NaN\n", "Warning message:\nIn log(-1) : NaNs produced\n")
    assert (result.error.kind, result.error.message) == ("runtime", "boom 3")
    assert result.error.traceback.split("\n")[:4] == ["Error in g(n) : boom 3", "Traceback:", "1: f(3)", "2: g(n)"]
    broken = r("1 +\n2 3")
    assert (broken.error.kind, broken.error.name) == ("syntax", "SyntaxError")
    assert broken.error.message.startswith("<cell>:2:3: unexpected numeric constant")
    stopped = r("repeat {}", timeout=1)
    assert (stopped.error.kind, stopped.restarted) == ("timeout", False)
    assert r("kept").results[0].text == "[1] 7"


def test_an_r_that_ends_is_followed_by_a_new_one(r: Run) -> None:
    ended = r("x <- 1; quit(status = 3)")
    assert (ended.exit_code, ended.restarted, ended.stderr) == (3, True, "")
    assert r("exists('x')").results[0].text == "[1] FALSE"


def test_a_cell_reads_its_input_and_its_end(r: Run) -> None:
    code = "c(readline('name? '), readLines(stdin(), 1)); scan(); scan(n = 2, quiet = TRUE)"
    result = r(code, stdin=" Ada \nb c\n1 2\n3\n\n4 5\n")
    assert (result.stdout, result.text) == ('name? [1] "Ada" "b c"\n[1] 1 2 3\n', "[1] 4 5")
    assert r("utils::read.csv(file('stdin'))$b", stdin="a,b\n1,2\n").text == "[1] 2"
    assert r("readLines('stdin')", stdin="x\ny").text == '[1] "x" "y"'
    assert r("readline()", stdin="").error.message == "the standard input of this cell has ended"
    assert r("readline()").text == '[1] ""'


def test_an_r_that_waits_for_input_can_be_interrupted(box: cloche.Sandbox, r: Run) -> None:
    r("kept <- 7")
    events = box.stream("readline('? ')", language="r", interactive=True)
    for event in events:
        if isinstance(event, Waiting) and event.waiting:
            box.interrupt("r")
    assert (events.result.error.kind, events.result.restarted) == ("killed", False)
    assert r("kept").text == "[1] 7"
