"""Perl: modules of a project, and errors."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.language import Project
from cloche.languages.perl import definition as perl
from cloche.model.result import Diagnostic

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _perl() -> None:
    needs("perl")


def test_a_project_finds_its_modules() -> None:
    files = {
        "main.pl": "use strict;\nuse Beside; use Shop::Price;\nprint Beside::one() + Shop::Price::two();\n",
        "Beside.pm": "package Beside; sub one { 1 } 1;\n",
        "lib/Shop/Price.pm": "package Shop::Price; sub two { 2 } 1;\n",
    }
    result = cloche.run(files=files, language="perl")
    assert (result.stdout, result.stderr) == ("3", "")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('use strict;\ndie "boom";', ("runtime", "boom")),
        ('while (<STDIN>) { die "at the end" }', ("runtime", "at the end")),
        ('use Carp; sub f { confess "bad" } f(1);', ("runtime", "bad")),
        ("use Nope;", ("runtime", "Can't locate Nope.pm in @INC (you may need to install the Nope module)")),
        ("use warnings; my $x; print 1 + $x; exit 3;", ("exit", "The program ended with exit code 3.")),
        ('my $x = "abc;', ("syntax", "Can't find string terminator '\"' anywhere before EOF")),
    ],
)
def test_the_last_error_is_reported(code: str, expected: tuple[str, str]) -> None:
    error = cloche.run(code, language="perl", stdin="one\n").error
    assert (error.kind, error.message) == expected


def test_syntax_errors_have_their_lines() -> None:
    result = cloche.run('use strict;\nmy $x = 1;\n$y = 2;\nprint "a" "b";\n', language="perl")
    assert result.error.kind == "syntax"
    assert [(each.file, each.line) for each in result.diagnostics] == [("main.pl", 3), ("main.pl", 4)]
    assert isinstance(result.diagnostics[0], Diagnostic)
    assert "$y" in result.error.message


@pytest.mark.parametrize(
    "guess", [' at m.pl line 4, near "a"\n\t(Missing operator?)', ' (Missing?) at m.pl line 4, near "a"']
)
def test_what_perl_guesses_before_an_error_is_not_another_one(guess: str) -> None:  # until 5.36, and since 5.38
    error = 'syntax error at m.pl line 4, near "a"\nExecution of m.pl aborted due to compilation errors.\n'
    stderr = f"String found where operator expected{guess}\n{error}"
    failure = perl.explain(stderr)
    assert failure is not None
    assert failure.message == 'syntax error, near "a"'
    assert [each.line for each in perl.diagnose(stderr, Project("/sandbox/code/m.pl"))] == [4]
