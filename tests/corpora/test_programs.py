"""Runs other people's programs in every language, with tests of their own: HumanEval-X and McEval.

A task is a solution and its tests; together they are a program that exits with 0.  A few tasks of each language are
run, evenly spread; with CLOCHE_TEST_ALL=1, all of them.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.corpora.folder import CORPORA, skip_without
from tests.languages.toolchains import needs

import cloche

ALL = bool(os.environ.get("CLOCHE_TEST_ALL"))
SAMPLE = 6
AT_ONCE = 2

Task = dict[str, str]
Program = dict[str, Any]  # arguments of `cloche.run`

# Tasks that fail on a bare host as well, and why; a host with more libraries may do better.
NATIVE_FAILURES: dict[str, str] = {
    "CPP/22": "needs Boost",
    "CPP/137": "needs Boost",
    "JavaScript/112": "compares two arrays by identity",
    "JavaScript/155": "one of its own checks does not hold",
    "JavaScript/162": "needs the package js-md5",
    "Julia/28": "compares a matrix with a vector",
    "Julia/33": "compares a matrix with a vector",
    "Rust/38": "needs the crate rand",
    "Rust/53": "needs the crate rand",
    "Rust/91": "needs the crate regex",
    "Rust/162": "needs the crate md5",
}


def joined(task: Task) -> Program:
    return {"code": "\n".join((task["prompt"], task["canonical_solution"], task["test"]))}


# Go's tests use a package that sandboxes do not have: this file provides the functions that they use.
GO_MAIN = """package main

import (
	"fmt"
	"math"
	"reflect"
)

type asserted struct{}

var assert asserted

func (asserted) New(any) asserted { return asserted{} }

func (asserted) Equal(wanted, got any, _ ...any) {
	if !reflect.DeepEqual(wanted, got) {
		panic(fmt.Sprintf("%%#v is not %%#v", got, wanted))
	}
}

func (a asserted) True(got bool, _ ...any)  { a.Equal(true, got) }
func (a asserted) False(got bool, _ ...any) { a.Equal(false, got) }
func (a asserted) Nil(got any, _ ...any)    { a.Equal(nil, got) }
func (a asserted) InDelta(wanted, got, delta float64, _ ...any) {
	a.True(math.Abs(wanted-got) <= delta)
}

func main() { %s(nil) }
"""


GO_PACKAGES = (
    "bytes",
    "crypto/md5",
    "fmt",
    "math",
    "math/rand",
    "regexp",
    "sort",
    "strconv",
    "strings",
    "testing",
    "time",
)


def go_file(code: str) -> str:
    """A file of the package, importing what it uses: not every task says so itself."""
    used = [package for package in GO_PACKAGES if re.search(rf"\b{package.rpartition('/')[2]}\.[A-Z]", code)]
    return "package main\n\n" + "".join(f'import "{package}"\n' for package in used) + code


def go_project(task: Task) -> Program:
    (test,) = re.findall(r"^func (Test\w+)\(", task["test"], re.M)
    files = {
        "go.mod": "module task\n\ngo 1.18\n",
        "main.go": GO_MAIN % test,
        "solution.go": go_file(task["prompt"].replace(task["import"], "") + task["canonical_solution"]),
        "checks.go": go_file(task["test"]),
    }
    return {"files": files, "entry": "main.go"}


def rust_program(task: Task) -> Program:
    """The tests become functions of a program; the crates that every task names and hardly one uses are left out."""
    source = task["declaration"] + task["canonical_solution"] + task["test"]
    source = re.sub(r"^use (rand|regex|md5)\b.*\n", "", source, flags=re.M)
    tests = re.findall(r"#\[test\]\s*fn (\w+)\(", re.sub(r"/\*.*?\*/", "", source, flags=re.S))
    source = re.sub(r"#\[test\]\s*fn", "pub fn", source.replace("#[cfg(test)]", ""))
    return {"code": f"{source}\nfn main() {{\n" + "".join(f"    tests::{name}();\n" for name in tests) + "}\n"}


CASES: dict[str, tuple[str, str, Callable[[Task], Program]]] = {
    "bash": ("mceval/Shell", "bash", joined),
    "c": ("mceval/C", "c", joined),
    "cpp": ("humaneval-x/humaneval_cpp", "cpp", joined),
    "go": ("humaneval-x/humaneval_go", "go", go_project),
    "java": ("humaneval-x/humaneval_java", "java", joined),
    "javascript": ("humaneval-x/humaneval_js", "javascript", joined),
    "julia": ("mceval/Julia", "julia", joined),
    "lua": ("mceval/Lua", "lua", joined),
    "perl": ("mceval/Perl", "perl", joined),
    "php": ("mceval/PHP", "php", joined),
    "python": ("humaneval-x/humaneval_python", "python", joined),
    "r": ("mceval/R", "r", joined),
    "ruby": ("mceval/Ruby", "ruby", joined),
    "rust": ("humaneval-x/humaneval_rust", "rust", rust_program),
    "tcl": ("mceval/Tcl", "tcl", joined),
    "typescript": ("mceval/TypeScript", "typescript", joined),
}


def tasks(name: str) -> list[Task]:
    """Return the tasks of a language to run."""
    path = CORPORA / f"{CASES[name][0]}.jsonl.gz"
    skip_without(path)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found: list[Task] = [json.loads(line) for line in lines]
    step = len(found) // SAMPLE
    return found if ALL else found[step // 2 :: step][:SAMPLE]


def outcome(name: str, task: Task) -> str:
    """Run a task; return its error, or nothing."""
    _, language, made = CASES[name]
    result = cloche.run(**made(task), language=language, timeout=60, memory="2G")
    if result.error is not None:
        return f"{result.error}\n{result.stderr[-1000:]}"
    failed = "Assertion failed" in result.stderr  # console.assert does not end the program
    return result.stderr[-1000:] if failed else ""


@pytest.mark.timeout(1200 if ALL else 120)
@pytest.mark.parametrize("name", CASES)
def test_programs_of_others_pass_their_tests(jail: None, name: str) -> None:
    needs(CASES[name][1])
    tried = tasks(name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = dict(
            zip((task["task_id"] for task in tried), pool.map(lambda t: outcome(name, t), tried), strict=True)
        )
    assert {task: said for task, said in outcomes.items() if said and task not in NATIVE_FAILURES} == {}
