"""`cloche run -c CODE` and `cloche run -`: the language is detected; in case of doubt it is Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import CLOCHE, run
from tests.languages.toolchains import needs

from cloche.languages.detection import detect
from cloche.languages.detection.python_syntax import is_plainly_python

SNIPPETS = Path(__file__).parents[1] / "languages" / "snippets"


def test_another_language_is_taken_and_mentioned(jail: None, tmp_path: Path) -> None:
    needs("bash")
    done = run(tmp_path, "-c", "for each in 1 2; do echo $each$1; done", "x")
    assert (done.stdout, done.returncode) == ("1x\n2x\n", 0)
    done = run(tmp_path, "-c", "ls")
    assert done.stderr == "cloche: the code looks like Bash; -l NAME says otherwise, for example -l python\n"
    done = subprocess.run(
        [CLOCHE, "run", "-", "argument"], input="#!/bin/bash\necho $1", capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("argument\n", "")  # it says so itself: nothing is to be mentioned


def test_the_toolchain_of_another_language_is_there(jail: None, tmp_path: Path) -> None:
    needs("ruby")
    # The nursery that was started for Python before the code was read does not have it.
    done = run(tmp_path, "-c", "puts [1, 2].map { |x| x * 21 }.last")
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
    assert run(tmp_path, "--lang", "ruby", "-c", "puts 1").stdout == "1\n"


def test_doubtful_code_is_python(jail: None, tmp_path: Path) -> None:
    for code in ("foo.bar()", "print 1", "x = (", "cat(1)"):
        done = run(tmp_path, "-c", code)
        assert "Error" in done.stderr, code
        assert "looks like" not in done.stderr, code
        assert done.returncode == 1, code


@pytest.mark.parametrize(
    ("code", "is_python"),
    [
        ("print(1)", True),
        ("import sys; print(sys.argv)", True),
        ("def f(): return undefined\nf()", True),  # found when it runs, and in Python
        ("print(__name__); exit(3)", True),
        (r"print('\d')", True),
        ("ls", False),
        ("console.log(1)", False),
        ("#!/usr/bin/env ruby\nprint(1)", False),
        ("from math import *\nsqrt(2)", False),
        ("", False),
        ("print(1)\n" * 10_000, False),  # too long to try
    ],
)
def test_what_is_plainly_python(code: str, is_python: bool) -> None:
    assert is_plainly_python(code) is is_python


def test_no_snippet_of_another_language_passes_for_python() -> None:
    seen = 0
    for file in sorted(path for path in SNIPPETS.rglob("*") if path.is_file()):
        code = file.read_text(errors="replace")
        if is_plainly_python(code):
            seen += 1
            guess = detect(code)
            assert guess.language in ("python", "") or guess.confidence < 0.9, f"{file}: {guess}"
    assert seen > 0


def test_a_text_that_is_made_for_the_parser_harms_nothing() -> None:
    parts = ("-", "(", "[", "{", "lambda:", "a.", "not ", "1+", "*a,", "f(", "if 1:\n ", "await ", 'f"{', "x if ", "`")
    code = f"""
import warnings; warnings.simplefilter("error")
from cloche.languages.detection.python_syntax import is_plainly_python
for part in {parts!r}:
    for end in ("", "1", ")"):
        is_plainly_python((part * 10_000)[:9_999] + end)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
