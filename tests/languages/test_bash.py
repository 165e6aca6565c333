"""Bash: its parser's errors; test_every_language.py has the rest."""

from __future__ import annotations

import pytest

import cloche
from cloche.model.result import Diagnostic

pytestmark = pytest.mark.usefixtures("jail")


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("echo one\nif then\n", 2, "syntax error near unexpected token `then'"),
        ('echo "one\n', 1, "unexpected EOF while looking for matching `\"'"),
        ("if true; then\necho one\n", 3, "syntax error: unexpected end of file"),
    ],
)
def test_a_syntax_error_is_reported_with_its_line(code: str, line: int, message: str) -> None:
    result = cloche.run(code, language="bash")
    assert (result.error.kind, result.error.name, result.exit_code) == ("syntax", "SyntaxError", 2)
    assert result.diagnostics == (Diagnostic("main.sh", line, 0, message),)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("nothing-of-that-name\n", 127),
        ("set -u; echo $nothing\n", 1),
        ("eval 'if then'; exit 4\n", 4),
        ("echo 'main.sh: line 3: syntax error near' >&2; echo more >&2; false\n", 1),
    ],
)
def test_everything_else_is_an_exit_code(code: str, exit_code: int) -> None:
    result = cloche.run(code, language="bash")
    assert (result.error.kind, result.exit_code, result.diagnostics) == ("exit", exit_code, ())
