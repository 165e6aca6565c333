"""Ruby: its standard library, projects, and errors."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.ruby import definition as ruby
from cloche.model.result import Diagnostic

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _ruby() -> None:
    needs("ruby")


def test_a_project_finds_its_library_and_rubys() -> None:
    files = {
        "Gemfile": 'source "https://example.org"\n',
        "app.rb": 'require "shop/price"\nrequire "json"\nrequire "set"\nputs JSON.generate(price: Price.new(3).to_i)\n',
        "lib/shop/price.rb": "class Price < Struct.new(:to_i)\nend\n",
    }
    result = cloche.run(files=files, language=None)
    assert (result.stdout, result.stderr) == ('{"price":3}\n', "")


def test_an_exception_is_the_one_that_ended_the_program() -> None:
    code = 'def f = raise(KeyError, "inner\\nsecond")\nbegin\n  f\nrescue => e\n  raise ArgumentError, "outer"\nend\n'
    error = cloche.run(code, language="ruby").error
    assert (error.kind, error.name, error.message) == ("runtime", "ArgumentError", "outer")
    assert "inner" in str(error.traceback)
    assert cloche.run('abort "enough"', language="ruby").error.kind == "exit"


def test_a_syntax_error_has_its_line() -> None:
    result = cloche.run("puts 1\n\nputs (2\nend\n", language="ruby")
    assert result.error.kind == "syntax"
    first: Diagnostic = result.diagnostics[0]
    assert (first.file, first.line in (3, 4)) == ("main.rb", True)
    assert "unexpected" in str(result.error.traceback)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "/sandbox/code/main.rb: ",
        "/sandbox/code/main.rb: --> /sandbox/code/main.rb\n\nUnmatched `(' ?\n\n> 1  f(\n\n",
    ],
    ids=["until 3.2", "since 3.3", "since 3.3, with a suggestion"],
)
def test_a_syntax_error_is_known_however_it_is_worded(before: str) -> None:
    stderr = f"{before}/sandbox/code/main.rb:1: syntax error, unexpected end-of-input (SyntaxError)\nf(\n  ^\n\n"
    failure = ruby.explain(stderr)
    assert failure is not None
    assert (failure.kind, failure.message) == ("syntax", "syntax error, unexpected end-of-input")


def test_what_an_exception_led_to_is_found_behind_the_line_that_is_marked() -> None:
    stderr = (
        "main.rb:5:in `rescue in <main>': outer (ArgumentError)\n\n  raise ArgumentError\n        ^^^^^^^^^^^^^\n"
        "\tfrom main.rb:2:in `<main>'\nmain.rb:1:in `f': inner (KeyError)\n\tfrom main.rb:3:in `<main>'\n"
    )
    failure = ruby.explain(stderr)
    assert failure is not None
    assert (failure.name, failure.message) == ("ArgumentError", "outer")
