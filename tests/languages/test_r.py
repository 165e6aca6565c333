"""R: plots come back as pictures, and errors are reported."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.result import Diagnostic

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _r() -> None:
    needs("r")


def sizes(result: cloche.Result) -> list[tuple[int, int]]:
    """Return width and height of each picture."""
    heads = [display.data("image/png")[:24] for display in result.results]
    assert all(head.startswith(b"\x89PNG") for head in heads)
    return [(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")) for head in heads]


def test_every_plot_comes_back_as_a_picture() -> None:
    result = cloche.run(
        """plot(1:10, main = "größe")
hist(c(1, 2, 2, 3))
dev.off()
dev.new()                      # nothing is drawn on it
dev.off()
png("mine.png"); plot(1); dev.off()   # a file of its own
dev.new(width = 4, height = 3)
barplot(c(a = 1, b = 2))
stop("the last one comes, too")
""",
        language="r",
    )
    assert result.error.kind == "runtime"
    assert sizes(result) == [(800, 600), (800, 600), (400, 300)]


def test_a_run_shows_its_own_plots_alone(box: cloche.Sandbox) -> None:
    box.files.write(".Rprofile", "side <- 7\n")  # R reads it as usual
    box.files.write("square.R", "plot(1)\nprint(Sys.getenv('R_PROFILE_USER'))\ncat(side * side)\n")
    first = box.run_program(entry="square.R")
    assert first.stdout == '[1] ""\n49'
    assert len(first.results) == 1
    assert box.run_program("cat(length(dir('/tmp/.shown')))", language="r").results == ()
    assert not box.files.list("/tmp/.shown")


def test_a_syntax_error_has_its_place() -> None:
    result = cloche.run("x <- c(1,\n  2)\ny <- x +\n  2 3\n", language="r")
    assert result.error.kind == "syntax"
    assert result.diagnostics == (Diagnostic("main.R", 4, 5, "unexpected numeric constant"),)


def test_an_error_is_reported_without_the_call() -> None:
    result = cloche.run("f <- function(x) stop('no ', x)\nwarning('w')\nf(1)\n", language="r")
    assert (result.error.kind, result.error.message) == ("runtime", "no 1")
    assert result.error.traceback.startswith("Error in f(1) : no 1")
    assert cloche.run("x <- rep(1, 1e10)", language="r").error.kind == "memory"


@pytest.mark.parametrize("more", ["", "plot(1)\n"])  # without and with R's default packages
def test_the_time_zone_is_found_without_a_warning(more: str) -> None:
    result = cloche.run(f"{more}cat(Sys.timezone())", language="r")
    assert (result.stdout != "", result.stderr) == (True, "")
    assert cloche.run(f"{more}cat(Sys.timezone())", language="r", env={"TZ": "Asia/Tokyo"}).stdout == "Asia/Tokyo"
    assert cloche.run(f"{more}Sys.setenv(TZ='Asia/Tokyo')\ncat(Sys.timezone())", language="r").stdout == "Asia/Tokyo"


def test_a_session_tells_its_time_zone_as_well(box: cloche.Sandbox) -> None:
    result = box.run("Sys.timezone()", language="r")
    assert result.stderr == ""
    assert "/" in box.run("readlink /etc/localtime", language="bash").stdout
