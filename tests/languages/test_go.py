"""Go: whole programs, snippets, packages of several files, errors of the compiler and of programs."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.languages.go import definition as go
from cloche.languages.language import Project

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    needs("go")


SNIPPET = """type Point struct{ X int }

func (p Point) Twice() int { return p.X * 2 }

words := strings.Fields("b a")
sort.Strings(words) // neither is imported
var first = words[0]
fmt.Println(first, Point{21}.Twice(), square(3))
func() { fmt.Println(utf8.RuneCountInString("äö")) }()

func square(x int) int { return x * x }
"""


def test_statements_become_a_program():
    result = cloche.run(SNIPPET, language="go")
    assert result.stdout == "a 42 9\n2\n", result.stderr
    assert result.build_time


def test_errors_are_where_their_author_made_them():
    result = cloche.run('x := 1\nfmt.Println("a", y)\n\tfunc() { fmt.Println(z) }()\n', language="go")
    assert (result.error.kind, result.exit_code) == ("syntax", 1)
    diagnostics = {
        str(each).replace("x declared but not used", "declared and not used: x") for each in result.diagnostics
    }
    assert diagnostics == {  # older versions word the first one differently
        "main.go:1:1: error: declared and not used: x",
        "main.go:2:18: error: undefined: y",
        "main.go:3:23: error: undefined: z",
    }


def test_what_has_a_package_clause_is_left_alone():
    result = cloche.run('package main\n\nfunc main() { fmt.Println("no import") }\n', language="go")
    assert [str(each) for each in result.diagnostics] == ["main.go:3:15: error: undefined: fmt"]


def test_a_panic_is_explained_with_the_lines_of_the_snippet():
    result = cloche.run("var list []int\n\nfmt.Println(list[3])\n", language="go")
    assert (result.exit_code, result.error.kind, result.error.name) == (2, "runtime", "panic")
    assert result.error.message == "runtime error: index out of range [3] with length 0"
    assert "/sandbox/code/main.go:3" in (result.error.traceback or "")


@pytest.mark.parametrize(
    ("stderr", "name", "message"),
    [
        ("x\npanic: boo\n\ngoroutine 1 [running]:\nmain.main()\n", "panic", "boo"),
        ("panic: two\n\tlines\n\ngoroutine 7 [running]:\n", "panic", "two\n\tlines"),
        ("panic: nil\n[signal SIGSEGV: code=0x1]\n\ngoroutine 1 [running]:\n", "panic", "nil"),
        (
            "fatal error: all goroutines are asleep\n\ngoroutine 1 [select]:\n",
            "fatal error",
            "all goroutines are asleep",
        ),
        ("fatal error: runtime: out of memory\n\nruntime stack:\n\ngoroutine 1 [r]:\n", "OutOfMemoryError", None),
    ],
)
def test_what_ended_a_program_is_read_from_its_last_words(stderr, name, message):
    failure = go.explain(stderr)
    assert failure is not None
    assert failure.name == name
    assert message is None or failure.message == message


def test_what_only_looks_like_a_panic_is_none():
    assert go.explain("panic: at the disco\n") is None


def test_a_project_without_a_module_calls_itself_what_it_likes():
    files = {
        "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/app/util"\n\t"./lib"\n)\n\n'
        "func main() { fmt.Println(util.Name, lib.Twice(number())) }\n",
        "number.go": "package main\n\nfunc number() int { return 4 }\n",
        "other.go": "package main\n\nfunc main() {}\n",  # a program of its own
        "util/util.go": 'package util\n\nvar Name = "util"\n',
        "util/util_test.go": "package util\n\nthis is no Go\n",
        "util/util_windows.go": 'package util\n\nvar Name = "windows"\n',
        "lib/lib.go": 'package lib\n\nimport "app/util"\n\nfunc Twice(x int) int { return 2 * x * len(util.Name) }\n',
    }
    result = cloche.run(files=files, language="go")
    assert result.stdout == "util 32\n", result.stderr


def test_a_module_is_built_as_it_says():
    files = {
        "go.mod": "module example.com/tool\n\ngo 1.21\n\nrequire example.com/far v1.0.0\n\n"
        "replace (\n\texample.com/near => ./near\n)\n",
        "cmd/tool/main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/far"\n\t"example.com/near/deep"\n'
        '\t"example.com/tool/internal/own"\n)\n\n'
        "func main() {\n\tvar all []func()\n"
        "\tfor i := 0; i < 2; i++ {\n\t\tall = append(all, func() { fmt.Print(i) })\n\t}\n"
        "\tfor _, each := range all {\n\t\teach()\n\t}\n\tfmt.Println(far.A, deep.B, own.C)\n}\n",
        "internal/own/own.go": "package own\n\nconst C = 3\n",
        "vendor/example.com/far/far.go": "package far\n\nconst A = 1\n",
        "near/deep/deep.go": "package deep\n\nconst B = 2\n",
    }
    result = cloche.run(files=files, language=None)
    assert result.stdout == "221 2 3\n", result.stderr  # 22: before Go 1.22 a loop had one variable for all iterations


@pytest.mark.parametrize(
    ("imported", "message"),
    [
        ("github.com/gorilla/mux", "is not here, and nothing is downloaded"),
        ("nowhere", "is neither in the standard library nor a folder"),
        ("internal/abi", "use of internal package"),
    ],
)
def test_an_import_that_leads_nowhere_is_said_plainly(imported, message):
    result = cloche.run(f'package main\n\nimport _ "{imported}"\n\nfunc main() {{}}\n', language="go")
    assert message in result.error.message
    assert (result.diagnostics[0].line, result.diagnostics[0].column) == (3, 10)


def test_what_imports_itself_is_an_error():
    files = {
        "main.go": 'package main\n\nimport _ "x/a"\n\nfunc main() {}\n',
        "a/a.go": 'package a\n\nimport _ "x/b"\n',
        "b/b.go": 'package b\n\nimport _ "x/a"\n',
    }
    result = cloche.run(files=files, language="go")
    assert result.error.message == "import cycle not allowed: x/a (b/b.go, line 3)"


def test_tests_are_run_when_there_is_nothing_else():
    code = 'import "testing"\n\nfunc TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Error("no") }\n'
    result = cloche.run(code, language="go")
    assert result.exit_code == 1
    assert "--- PASS: TestGood" in result.stdout
    assert "main.go:5: no" in result.stdout


def test_the_go_command_builds_what_is_rare():
    files = {
        "go.mod": "module app\n\ngo 1.21\n",
        "main.go": 'package main\n\nimport (\n\t_ "embed"\n\t"fmt"\n)\n\n//go:embed note.txt\nvar note string\n\n'
        "func main() { fmt.Println(note) }\n",
        "note.txt": "embedded",
    }
    result = cloche.run(files=files, language=None)
    assert result.stdout == "embedded\n", result.stderr


def test_what_was_prepared_cannot_be_changed_from_inside():
    found = languages.tools(languages.find("go"))
    if found.prepared is None:
        pytest.skip("the standard library was not compiled ahead: cloche languages prepare go")
    result = cloche.run(f"cd {found.prepared}; echo x > builder; echo x > cache/new", language="bash")
    assert result.stderr.count("Read-only file system") == 2


def test_without_a_preparation_the_builder_is_built_first():
    found = languages.tools(languages.find("go")).replace(prepared=None)
    plan = go.plan(Project("/sandbox/code/main.go", "", "/sandbox/code", snippet=True), found)
    assert [step.name for step in plan.before] == ["prepare", "compile"]
    assert {path for path, _ in plan.files} >= {"/tmp/build/builder/main.go", "/tmp/build/builder/snippet.go"}
    assert "-prepared" not in plan.before[1].argv


def test_a_program_that_needs_too_much_memory_to_compile_is_at_a_limit():
    result = cloche.run(
        "package main\n\nvar x = [1 << 28]int{1<<28 - 1: 1}\n\nfunc main() { println(x[5]) }\n", language="go"
    )
    assert result.error.kind == "memory"


TESTS = """package sums_test

import "testing"

func add(a, b int) int { return a + b }

func TestAdd(t *testing.T) {
	if add(1, 2) != 3 {
		t.Fatal("no")
	}
}

func TestMore(t *testing.T) {
	t.Fatalf("%d", add(2, 2))
}
"""


def test_tests_of_any_package_are_run(jail):
    result = cloche.run(TESTS, language="go")
    assert "--- PASS: TestAdd" in result.stdout
    assert "main.go:14: 4\n--- FAIL: TestMore" in result.stdout
    assert (result.exit_code, result.error.kind) == (1, "exit")
    wrong = cloche.run(TESTS.replace("add(2, 2)", "sub(2, 2)"), language="go")
    assert [str(each) for each in wrong.diagnostics] == ["main.go:14:17: error: undefined: sub"]
