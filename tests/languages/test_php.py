"""PHP: code with and without the opening tag."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _php() -> None:
    needs("php")


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("echo __LINE__, PHP_EOL;", "1\n"),
        ("// a comment\necho \"<?xml version='1.0'?>\", __LINE__;", "<?xml version='1.0'?>2"),
        ("<?php echo $argc;", "1"),
        ("<h1><?= 1 + 1 ?></h1>\n", "<h1>2</h1>\n"),
        ("<p>a page</p>\n", "<p>a page</p>\n"),
    ],
)
def test_code_needs_no_tag_and_a_page_stays_one(code: str, printed: str) -> None:
    assert cloche.run(code, language="php").stdout == printed


def test_code_beside_files_needs_no_tag() -> None:
    result = cloche.run(
        "require 'sums.php';\necho sum(2, 3);",
        language="php",
        files={"sums.php": "<?php\nfunction sum($a, $b) { return $a + $b; }\n"},
    )
    assert (result.stdout, result.error) == ("5", None)


def test_errors_are_reported_with_the_lines_of_their_author() -> None:
    result = cloche.run("$x = 1;\n$y = ;\n", language="php")
    assert result.error.kind == "syntax"
    assert [(each.file, each.line) for each in result.diagnostics] == [("main.php", 2)]
    assert "unexpected token" in result.diagnostics[0].message
    code = (
        'try {\n  throw new Exception("x");\n} catch (Exception $e) {\n  throw new DomainException("a\\nb", 1, $e);\n}'
    )
    error = cloche.run(code, language="php").error
    assert (error.kind, error.name, error.message) == ("runtime", "DomainException", "a\nb")
    assert "main.php:4" in str(error.traceback)
    assert cloche.run("echo $nothing; exit(3);", language="php").error.kind == "exit"
