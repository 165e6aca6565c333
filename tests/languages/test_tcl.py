"""Tcl: errors."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.result import Diagnostic


@pytest.mark.usefixtures("jail")
def test_errors_are_reported() -> None:
    needs("tcl")
    error = cloche.run('proc f {x} { error "boom $x" }\nf 1\n', language="tcl").error
    assert (error.kind, error.message) == ("runtime", "boom 1")
    assert "while executing" in str(error.traceback)
    broken = cloche.run("puts 1\nputs [expr {1 +}]\n", language="tcl")
    assert broken.error.kind == "syntax"
    assert broken.diagnostics == (Diagnostic("main.tcl", 2, 0, "missing operand at _@_"),)
