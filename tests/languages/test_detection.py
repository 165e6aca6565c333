"""Detection by labels, file names, shebang lines, and by content alone.

The snippets in `snippets/tuning` existed while the marks were weighed.  Those in `snippets/held_out` were written
afterwards, and nothing was changed for them: a failure there is no reason to change a mark.  All are called `.txt`, so
that no tool mistakes them for programs of ours.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tests.corpora.folder import CORPORA

from cloche import languages
from cloche.languages.detection import Guess, detect, foreign, known_names
from cloche.languages.detection.marks import EXTENDS, detectable, marks
from cloche.languages.detection.tokens import KINDS, LOOK_AT

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "detection.md"
NAMES = detectable()
ALL = sorted((*NAMES, "none"))  # `none`: data, mark-up, settings and prose


def language(code: str, **more: str) -> str:
    return detect(code, **more).language


def bare(code: str) -> str:
    """Remove the shebang line, which would give the language away."""
    return code.partition("\n")[2] if code.startswith("#!/") else code


@cache
def guessed(part: str, name: str) -> tuple[str, ...]:
    """Return the guess for each snippet of a language."""
    paths = sorted((HERE / "snippets" / part / name).glob("*.txt"))
    return tuple(language(bare(path.read_text())) or "none" for path in paths)


# Detection by name


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *((name, name) for name in NAMES),
        *((f"{name.upper()}", name) for name in NAMES),
        ("py", "python"),
        ("python3", "python"),
        ("pycon", "python"),
        ("js", "javascript"),
        ("node", "javascript"),
        ("mjs", "javascript"),
        ("jsx", "javascript"),
        ("ts", "typescript"),
        ("tsx", "typescript"),
        ("sh", "bash"),
        ("shell", "bash"),
        ("zsh", "bash"),
        ("console", "bash"),
        ("golang", "go"),
        ("rs", "rust"),
        ("c++", "cpp"),
        ("cc", "cpp"),
        ("hpp", "cpp"),
        ("rb", "ruby"),
        ("pl", "perl"),
        ("jl", "julia"),
        ("sqlite", "sqlite"),
        ("psql", "sql"),
        ("Rscript", "r"),
        ("python title=main.py", "python"),
        ("{.python .numberLines}", "python"),
        ("{r, echo=FALSE}", "r"),
        ("js:src/app.js", "javascript"),
        ("rust,no_run", "rust"),
        ("language-go", "go"),
        ("text/x-perl", "perl"),
        ("```ruby", "ruby"),
        ("json", ""),
        ("yaml", ""),
        ("c#", ""),
        ("mermaid", ""),
    ],
)
def test_a_label_decides(label: str, expected: str) -> None:
    guess = detect("SELECT 1 FROM t;", file="a.lua", label=label)
    assert guess.language == expected
    assert guess.confidence == (1 if expected else 0)


@pytest.mark.parametrize(
    "label", ["", "text", "plaintext", "code", "output", "{}", "```", "what ever", "\0", "x" * 10**6]
)
def test_a_label_that_names_nothing_decides_nothing(label: str) -> None:
    assert language("SELECT 1 FROM t;", file="a.lua", label=label) == "lua"
    assert language("SELECT 1 FROM t;", label=label) == "sql"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("main.py", "python"),
        ("/a/b.c/MAIN.PY", "python"),
        ("C:\\code\\app.mjs", "javascript"),
        ("index.d.ts", "typescript"),
        ("App.tsx", "typescript"),
        ("deploy.sh", "bash"),
        ("~/.bashrc", "bash"),
        ("main.go", "go"),
        ("lib.rs", "rust"),
        ("Main.java", "java"),
        ("main.c", "c"),
        ("main.cc", "cpp"),
        ("vector.hpp", "cpp"),
        ("plot.R", "r"),
        ("app.rb", "ruby"),
        ("Rakefile", "ruby"),
        ("Gemfile", "ruby"),
        ("index.php", "php"),
        ("script.pl", "perl"),
        ("Module.pm", "perl"),
        ("init.lua", "lua"),
        ("schema.sql", "sql"),
        ("solve.jl", "julia"),
        ("sums.tcl", "tcl"),
        ("Makefile", ""),
        ("Dockerfile", ""),
        ("CMakeLists.txt", ""),
        ("package.json", ""),
        ("README.md", ""),
        ("analysis.ipynb", ""),
        (".env", ""),
    ],
)
def test_a_file_name_decides(file: str, expected: str) -> None:
    assert language("#!/usr/bin/awk -f\nlocal x = 5", file=file) == expected


@pytest.mark.parametrize(
    "file", ["", "-", "notes.txt", "snippet", "main.unknown", "py", ".py", "a/", "\0", "x" * 10**6]
)
def test_a_file_name_that_says_nothing_decides_nothing(file: str) -> None:
    assert language("local x = nil\nprint(x)", file=file) == "lua"


def test_a_header_is_recognised_by_its_content() -> None:
    assert language("int add(int a, int b);", file="add.h") == "c"
    assert language("", file="add.h") == "c"
    assert language("namespace a { class B { public: virtual ~B() = default; }; }", file="add.h") == "cpp"
    assert language("def add(a, b):\n    return a + b", file="add.h") in ("c", "cpp")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!/usr/bin/python", "python"),
        ("#!/usr/bin/env python3", "python"),
        ("#! /usr/bin/env python3.12", "python"),
        ("#!/usr/bin/env -S python3 -u", "python"),
        ("#!/usr/bin/env -S uv run --script", "python"),
        ("#!/usr/bin/env -S MODE=1 node --no-warnings", "javascript"),
        ("#!/usr/bin/env -S node --experimental-strip-types", "typescript"),
        ("#!/usr/bin/env ts-node", "typescript"),
        ("#!/bin/sh", "bash"),
        ("#!/bin/bash -e\r", "bash"),
        ("#!/usr/bin/zsh", "bash"),
        ("#!/bin/busybox sh", "bash"),
        ("#!/usr/bin/env Rscript", "r"),
        ("#!/usr/bin/ruby -w", "ruby"),
        ("#!/usr/bin/php8.2", "php"),
        ("#!/usr/bin/perl -w", "perl"),
        ("#!/usr/bin/lua5.4", "lua"),
        ("#!/usr/bin/env julia", "julia"),
        ("#!/usr/bin/env tclsh8.6", "tcl"),
        ("#!/usr/bin/sqlite3 -init", "sqlite"),
        ("#!/usr/bin/env -S go run", "go"),
        ("#!/usr/bin/env rust-script", "rust"),
        ("#!/usr/bin/java --source 21", "java"),
        ("\ufeff\n#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/awk -f", ""),
    ],
)
def test_a_shebang_decides(line: str, expected: str) -> None:
    assert language(f"{line}\nx = 1\n") == expected


@pytest.mark.parametrize("line", ["#!", "#!/usr/bin/env", "#!/usr/bin/env -S", "#![allow(dead_code)]"])
def test_what_only_looks_like_a_shebang_decides_nothing(line: str) -> None:
    assert language(f'{line}\nfn main() {{ println!("hi"); }}') == "rust"


def test_the_order_is_label_file_shebang_content() -> None:
    code = "#!/usr/bin/perl\nconsole.log(1);\n"
    assert language(code, file="a.rb", label="lua") == "lua"
    assert language(code, file="a.rb") == "ruby"
    assert language(code) == "perl"
    assert language(code.partition("\n")[2]) == "javascript"


# Detection by content


@pytest.mark.parametrize("name", ALL)
def test_there_are_enough_snippets(name: str) -> None:
    assert len(guessed("tuning", name)) >= 16
    assert len(guessed("held_out", name)) >= 8
    assert name == "none" or len(guessed("tuning", name)) + len(guessed("held_out", name)) >= 24


@pytest.mark.parametrize("name", ALL)
def test_the_snippets_that_it_was_tuned_with_are_recognised(name: str) -> None:
    found = guessed("tuning", name)
    assert found.count(name) >= 0.98 * len(found), found


def test_the_held_out_snippets_are_recognised() -> None:
    right = sum(guessed("held_out", name).count(name) for name in ALL)
    assert right >= 0.95 * sum(len(guessed("held_out", name)) for name in ALL)


def test_the_page_says_how_well_the_held_out_snippets_are_recognised() -> None:
    rows = ["| language | right | taken for |", "|---|---|---|"]
    for name in ALL:
        found = guessed("held_out", name)
        wrong = Counter(other for other in found if other != name)
        mistakes = ", ".join(f"{other} ({times})" for other, times in sorted(wrong.items()))
        rows.append(f"| {name} | {found.count(name)} of {len(found)} | {mistakes} |")
    table = "\n".join(rows)
    assert table in PAGE.read_text(), f"docs/detection.md should have\n\n{table}\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1+1", "python"),
        ('print("hi")', "python"),
        ("x = 5", "python"),
        ("let x = 5;", "javascript"),
        ("int x = 5;", "c"),
    ],
)
def test_what_could_be_many_things_is_recognised_with_doubt(code: str, expected: str) -> None:
    guess = detect(code)
    assert guess.language == expected
    assert 0.1 < guess.confidence < 0.6


@pytest.mark.parametrize("name", NAMES)
def test_a_long_program_is_recognised_without_doubt(name: str) -> None:
    paths = (HERE / "snippets" / "tuning" / name).glob("*.txt")
    longest = max((path.read_text() for path in paths), key=len)
    assert detect(longest).confidence > 0.9


def test_types_make_typescript_and_classes_make_cpp() -> None:
    assert language("function add(a, b) {\n  return a + b;\n}") == "javascript"
    assert language("function add(a: number, b: number) {\n  return a + b;\n}") == "typescript"
    assert language("int main() {\n  int x = 5;\n  return x;\n}") == "c"
    assert language("int main() {\n  auto x = std::max(5, 6);\n  return x;\n}") == "cpp"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", "python"),
        ("std::process::exit(4);", "rust"),
        ('import fs = require("fs");\nconsole.log(fs.constants);', "typescript"),
        ("while (<DATA>) { print uc }", "perl"),
        ('puts "hello"', "ruby"),
        ("puts [expr {6 * 7}]", "tcl"),
        ("puts [1,2,3].sum", "ruby"),
        ("puts [1, 2].include?(2)", "ruby"),
        ("puts [a, b].max", "ruby"),
        ('puts ["a", "b"].join(",")', "ruby"),
        ("puts [*1..5].sum", "ruby"),
        ("puts [x.y, 2].min", "ruby"),
        ("puts $0", "ruby"),
        ("puts $x", "tcl"),
        ("puts [name]", "tcl"),
        ("puts [info patchlevel]", "tcl"),
        ("puts {a b}", "tcl"),
        ("puts stdout $x", "tcl"),
    ],
)
def test_one_line_can_be_enough(code: str, expected: str) -> None:
    assert language(code) == expected


def test_other_languages_in_strings_and_comments_mislead_nobody() -> None:
    assert language('q = "SELECT * FROM t WHERE a = 1"\nprint(run(q))') == "python"
    assert language("// import os\n// def main():\n//     pass\nconst a = require('a');") == "javascript"
    assert language("# use std::io; fn main() {}\nputs 'ok'") == "ruby"


@pytest.mark.parametrize("code", ["", " \n\t\n", "\0\0", "\ud800", "hello", "…", "# only a comment", "42"])
def test_what_says_nothing_is_no_guess(code: str) -> None:
    guess = detect(code)
    assert (guess.language, guess.confidence) == ("", 0)
    assert guess.why


def test_a_guess_says_why() -> None:
    assert detect("", file="a.rs") == Guess("rust", 1.0, "the file's name ends in .rs")
    assert detect('{"a": [1, null]}').why == "it looks like JSON"
    assert "`console . log (`" in detect("console.log(1)").why


# Any text is read in little time

HOSTILE = {
    "zeros": "\0" * 10**7,
    "one word": "a" * 10**7,
    "spaces": " " * 10**7,
    "empty lines": "\n" * 10**7,
    "quotes": '"' * 10**6,
    "escaped quotes": '"\\' * 10**6,
    "unclosed strings": '"\\"' * 10**6,
    "unclosed comments": "/*" * 10**6,
    "unclosed long comments": "--[====[" * 10**5,
    "triple quotes": '"""a' * 10**6,
    "backticks": "`" * 10**6,
    "apostrophes": "'a " * 10**6,
    "here documents": "".join(f"<<{'A' * (n % 30 + 2)} " for n in range(10**5)),
    "brackets": "(" * 10**6,
    "dots": "@a." * 10**6,
    "dollars": "$" * 10**6,
    "surrogates": "\ud800" * 10**6,
    "addresses": "http://" * 10**5,
    "starts of marks": "for in " * 10**6,
    "lines with gaps": ("for " + "in : " * 100 + "\n") * 10**4,
    "short lines": "def f(x):\n" * 10**5,
    "long words": ("a" * 60 + "! ") * 10**5,
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_takes_no_longer_than_other_text(code: str) -> None:
    detect("warm up")
    start = time.process_time()
    guess = detect(code)
    assert time.process_time() - start < 5  # quadratic time would take minutes
    assert 0 <= guess.confidence <= 1


def test_only_the_start_is_looked_at() -> None:
    assert language("local x = nil\n" + " " * LOOK_AT + "\nuse strict;\nmy $x = 5;\n" * 1000) == "lua"


def test_random_bytes_are_taken_as_they_come() -> None:
    chance = random.Random(7)
    for _ in range(200):
        code = "".join(
            chr(chance.choice((chance.randrange(32, 127), chance.randrange(0x110000), 10))) for _ in range(200)
        )
        assert language(code) in (*NAMES, "")


def test_importing_cloche_imports_nothing_of_it() -> None:
    seen = "import sys, cloche; print([name for name in sys.modules if 'detect' in name])"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True).stdout == "[]\n"


# The marks themselves


@pytest.mark.parametrize("found", [*map(marks, NAMES), *foreign.MARKS.values()])
def test_marks_are_written_as_tokens(found: dict[str, float]) -> None:
    for mark, weight in found.items():
        assert weight
        assert mark == " ".join(mark.split())
        assert not mark.startswith("…")
        assert mark != "BOL"
    # A kind of token that does not exist would never be found.
    kinds = {part for mark in found for part in mark.split() if part.startswith("$") and part.isupper()}
    assert kinds <= KINDS | {"$_GET", "$_POST", "$_SERVER", "$_SESSION", "$ENV", "$PROGRAM_NAME"}


def test_every_name_is_listed_once() -> None:
    for table in (known_names.LABELS, known_names.ENDINGS, known_names.FILES, known_names.PROGRAMS):
        listed = [name for row in table.values() for name in row.split()]
        assert len(listed) == len(set(listed))
        assert set(table) <= set(languages.names())
    assert not {name for row in known_names.LABELS.values() for name in row.split()} & set(known_names.FOREIGN_LABELS)
    assert EXTENDS.keys() <= set(NAMES)


# Programs of other people

PROGRAMS = {
    "humaneval-x/humaneval_cpp": "cpp",
    "humaneval-x/humaneval_go": "go",
    "humaneval-x/humaneval_java": "java",
    "humaneval-x/humaneval_js": "javascript",
    "humaneval-x/humaneval_python": "python",
    "humaneval-x/humaneval_rust": "rust",
    "mceval/C": "c",
    "mceval/Julia": "julia",
    "mceval/Lua": "lua",
    "mceval/PHP": "php",
    "mceval/Perl": "perl",
    "mceval/R": "r",
    "mceval/Ruby": "ruby",
    "mceval/Shell": "bash",
    "mceval/Tcl": "tcl",
    "mceval/TypeScript": "typescript",
}


needs_corpora = pytest.mark.skipif(not CORPORA.exists(), reason="no corpora: set CLOCHE_CORPORA to their folder")


def tasks(path: str) -> list[dict[str, str]]:
    """Return up to a hundred tasks of a corpus."""
    with gzip.open(CORPORA / f"{path}.jsonl.gz", "rt") as lines:
        found = [json.loads(line) for line in lines]
    random.Random(1).shuffle(found)
    return found[:100]


@needs_corpora
@pytest.mark.parametrize(("path", "name"), PROGRAMS.items(), ids=PROGRAMS)
def test_programs_of_other_people_are_recognised(path: str, name: str) -> None:
    found: Counter[str] = Counter()
    for task in tasks(path):
        head = task["declaration"] if name == "rust" else ""  # in other languages it is part of the prompt
        found[language(bare(f"{task['prompt']}\n{head}{task['canonical_solution']}"))] += 1
    assert found[name] >= 0.98 * found.total(), found


@needs_corpora
def test_confidence_is_how_often_it_is_right() -> None:
    right: dict[int, list[bool]] = {5: [], 7: [], 9: []}
    for path, name in PROGRAMS.items():
        if name != "typescript":  # the bodies of its functions are mostly JavaScript
            for task in tasks(path):
                body = task["canonical_solution"].strip()
                for part in (body, "\n".join(body.split("\n")[:2]), body.partition("\n")[0]):
                    guess = detect(part)
                    if guess.language and guess.confidence >= 0.5:
                        right[9 if guess.confidence >= 0.9 else 7 if guess.confidence >= 0.7 else 5].append(
                            guess.language == name
                        )
    shares = {tenths: sum(found) / len(found) for tenths, found in right.items()}
    assert shares[9] > 0.97, shares
    assert 0.8 < shares[7] < shares[9], shares
    assert 0.55 < shares[5] < shares[7], shares
