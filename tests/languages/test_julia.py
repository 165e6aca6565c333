"""Julia: reading its errors is tested without it, the rest where it is installed."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.julia.definition import diagnose, explain
from cloche.languages.language import Project
from cloche.model.result import Diagnostic

_MAIN = "/sandbox/code/main.jl"
_STACK = f"Stacktrace:\n [1] top-level scope\n   @ {_MAIN}:2\nin expression starting at {_MAIN}:2\n"
_NEW = f"ERROR: LoadError: ParseError:\n# Error @ {_MAIN}:2:5\nx = 1\nx = = 2\n#   ╙ ── unexpected `=`\n{_STACK}"
_OLD = 'ERROR: LoadError: syntax: unexpected "="\n' + _STACK


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (f"ERROR: LoadError: DomainError with -1.0:\nsqrt was called\n{_STACK}", ("runtime", "DomainError")),
        (f"noise\nERROR: LoadError: KeyError: key 1 not found\n{_STACK}", ("runtime", "KeyError")),
        (f"ERROR: LoadError: boom\n{_STACK}", ("runtime", "ErrorException")),
        (f"ERROR: LoadError: StackOverflowError:\n{_STACK}", ("runtime", "StackOverflowError")),
        (f"ERROR: LoadError: TaskFailedException:\nboom\n{_STACK}{_STACK}", ("runtime", "TaskFailedException")),
        (_NEW, ("syntax", "ParseError")),
        (_OLD, ("syntax", "ParseError")),
    ],
)
def test_an_exception_is_reported(stderr: str, expected: tuple[str, str]) -> None:
    failure = explain(stderr)
    assert failure is not None
    assert (failure.kind, failure.name) == expected
    assert failure.message


def test_a_syntax_error_has_its_place() -> None:
    project = Project(_MAIN, root="/sandbox/code")
    assert diagnose(_NEW, project) == (Diagnostic("main.jl", 2, 5, "unexpected `=`"),)
    assert diagnose(_OLD, project) == (Diagnostic("main.jl", 2, 0, 'unexpected "="'),)


@pytest.mark.usefixtures("jail")
def test_it_has_as_many_threads_as_cores() -> None:
    needs("julia")
    assert cloche.run("println(Threads.nthreads())", language="julia", cpu=2).stdout == "2\n"
    assert cloche.run("println(Threads.nthreads())", language="julia").stdout == "1\n"
    fewer = cloche.run("println(Threads.nthreads())", language="julia", cpu=2, env={"JULIA_NUM_THREADS": "1"})
    assert fewer.stdout == "1\n"


@pytest.mark.usefixtures("jail")
def test_it_runs() -> None:
    needs("julia")
    result = cloche.run("println(sum(parse.(Int, ARGS)))\nsqrt(-1)\n", language="julia", args=["2", "3"])
    assert result.stdout == "5\n"
    assert (result.error.kind, result.error.name) == ("runtime", "DomainError")
