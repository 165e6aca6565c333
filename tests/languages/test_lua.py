"""Lua: modules of a project, and its errors."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.result import Diagnostic

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _lua() -> None:
    needs("lua")


def test_a_project_finds_its_modules_wherever_its_entry_is() -> None:
    files = {
        "src/main.lua": 'local sums = require("sums")\nprint(sums.sum(2, 3), (require("deep.er")))\n',
        "src/sums.lua": "return {sum = function(a, b) return a + b end}\n",
        "src/deep/er/init.lua": "return 'deep'\n",
    }
    assert cloche.run(files=files, language="lua").stdout == "5\tdeep\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('local function f(x) error("boom " .. x) end\nf(1)', "boom 1"),
        ("error(setmetatable({}, {__tostring = function() return 'an object' end}))", "an object"),
        ("local t\nprint(t.x)", "attempt to index"),
    ],
)
def test_an_error_is_reported_without_its_place(code: str, message: str) -> None:
    error = cloche.run(code, language="lua").error
    assert error.kind == "runtime"
    assert error.message.startswith(message)


def test_a_syntax_error_has_its_line() -> None:
    result = cloche.run("print(1)\nx = = 2\n", language="lua")
    assert result.error.kind == "syntax"
    assert result.diagnostics == (Diagnostic("main.lua", 2, 0, "unexpected symbol near '='"),)
