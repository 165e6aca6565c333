"""Ruby: its own library, projects, and errors."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
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
