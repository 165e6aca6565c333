"""C: completed snippets, files of a program, errors of the compiler and of programs, hostile sources."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.c import compiler
from cloche.languages.c.headers import missing_in_c
from cloche.languages.c.snippet import leading_includes, wrapped
from cloche.languages.language import Project

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True, scope="module")
def toolchain() -> None:
    needs("c")


SNIPPET = r"""typedef struct { int x, y; } Point;
int calls = 0;
int area(Point p) { calls++; return p.x * p.y; }  // with { a brace

Point p = {2, 21};
for (int i = 0; i < 2; i++) {
    printf("%d;%c\n", area(p), '}');
}
if (calls == 2) puts("two"); else puts("other");
printf("%.1f\n", sqrt(16.0));
return 3;
"""


def test_statements_become_a_program():
    result = cloche.run(SNIPPET, language="c")
    assert result.stdout == "42;}\n42;}\ntwo\n4.0\n"
    assert result.exit_code == 3
    assert result.diagnostics == ()
    assert result.build_time


def test_a_variable_that_a_function_returns_stays_outside():
    code = "int n = 1;\nint get(void) { return n; }\nvoid set(int x) { if (!x) return; else n = x; }\nset(5);\n"
    result = cloche.run(code + 'printf("%d", get());\n', language="c")
    assert result.stdout == "5", result.stderr


def test_what_such_a_variable_begins_with_stays_outside_too():
    code = "int size = 5;\nint *place = &size;\nint get(void) { return *place; }\n"
    result = cloche.run(code + 'printf("%d", get());\n', language="c")
    assert result.stdout == "5", result.stderr


@pytest.mark.parametrize("unit", ["int v{0};\nvoid f{0}(void) {{}}\n", "int v{0}=v{0}1;", "{{}}", "A::", ";", "a<"])
@pytest.mark.timeout(60)  # most of them took minutes once
def test_what_is_long_and_odd_is_soon_looked_at(unit):
    code = "".join(unit.format(number) for number in range(compiler.MAX_LOOKED_AT // len(unit)))[
        : compiler.MAX_LOOKED_AT
    ]
    for shape in ("{}", "int x = {};", "int f(void) {{ {} }}\nf();"):
        wrapped(shape.format(code), "main.c")
        missing_in_c(shape.format(code))


def test_a_label_is_of_the_statement_behind_it():
    code = 'int i = 0;\nagain:\nif (i < 3) { printf("%d", i++); goto again; }\n'
    result = cloche.run(code, language="c")
    assert result.stdout == "012", result.stderr


def test_an_error_is_where_its_author_made_it():
    result = cloche.run(f"{SNIPPET}\nint y = unknown;\n", language="c")
    assert result.error.kind == "syntax"
    (error,) = [each for each in result.diagnostics if each.severity == "error"]
    assert (error.file, error.line, error.column) == ("main.c", 13, 9)
    assert "unknown" in error.message
    assert "13 | int y = unknown;" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "code",
    [
        "int main(void) { return 0; }",
        "int twice(int x) { return 2 * x; }",  # nothing to run, as the linker reports
        "#ifdef A\nputs(A);\n#endif",
        "puts(1;",
    ],
)
def test_what_is_whole_or_not_plain_is_left_alone(code):
    assert wrapped(code, "main.c") is None


def test_headers_are_added_only_for_what_is_not_the_programs_own():
    assert missing_in_c('int main() { printf("x"); bool b = true; }') == ("stdio.h", "stdbool.h")
    assert missing_in_c('#include "own.h"\nint main() { printf("x"); }') == ()
    assert missing_in_c("int printf(int x) { return x; }\nint time = 3;\nint main() { return printf(time); }") == ()
    assert missing_in_c('#include <stdio.h>\n// strlen(x)\nint main() { puts("malloc(3)"); }') == ()
    assert leading_includes("/* a */\n#include <a>\n#include <b.h> // c\n#define X\n#include <c>") == {"a", "b.h"}


def test_warnings_are_diagnostics_and_nothing_that_the_program_said():
    result = cloche.run("int main(void) { int unused; return 0; }", language="c")
    assert (result.error, result.stderr) == (None, "")
    (warning,) = result.diagnostics
    assert (warning.severity, warning.code, warning.line) == ("warning", "-Wunused-variable", 1)


def test_programs_side_by_side_are_not_mixed_up():
    with cloche.Sandbox() as box:
        box.files.write("one.c", '#include "say.h"\nint main(void) { say("one"); }')
        box.files.write("two.c", '#include <stdio.h>\nint main(void) { puts("two"); }')
        box.files.write("lib/say.c", "#include <stdio.h>\nvoid say(const char *word) { puts(word); }")
        box.files.write("include/say.h", "void say(const char *);")
        box.files.write("broken.c", "int f(")
        assert box.run_program(entry="two.c").stdout == "two\n"
        assert "broken.c" in box.run_program(entry="one.c").stderr  # the file may belong to the program
        box.files.remove("broken.c")
        assert box.run_program(entry="one.c").stdout == "one\n"


def test_what_the_linker_misses_is_a_diagnostic():
    result = cloche.run("int f(int);\nint main(void) { return f(1); }", language="c")
    assert result.error.kind == "syntax"
    assert result.diagnostics[-1].file == "main.c"
    assert "undefined reference to" in result.diagnostics[-1].message


def test_failures_of_programs_are_reported():
    asserted = cloche.run("#include <assert.h>\nint main(void) {\n    assert(1 == 2);\n}", language="c")
    assert (asserted.error.kind, asserted.error.name) == ("runtime", "assertion")
    assert asserted.error.message == "1 == 2 (main.c, line 3)"
    assert asserted.exit_code == 134
    freed = cloche.run(
        "#include <stdlib.h>\nint main(void) { char *volatile p = malloc(9); free(p); free(p); }", language="c"
    )
    assert freed.error.message == "free(): double free detected in tcache 2"
    crashed = cloche.run("int main(void) { volatile int *p = 0; return *p; }", language="c")
    assert (crashed.error.kind, crashed.exit_code) == ("killed", 139)


BOMBS = {
    "an endless include": ('#include "/dev/zero"\n', {"memory"}),
    "itself": ('#include "main.c"\n', {"syntax"}),
    "macros": (
        "#define A0 x x x x x x x x x x\n"
        + "".join(f"#define A{n} " + f"A{n - 1} " * 10 + "\n" for n in range(1, 9))
        + "int x = A8;",
        {"memory", "timeout"},
    ),
    "an array": ("char a[1 << 30] = {1};\nint main(void) { return a[5]; }", {"disk", "memory", "timeout", "syntax"}),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_bomb_for_the_compiler_ends_at_a_limit(what):
    code, kinds = BOMBS[what]
    result = cloche.run(code, language="c", memory="128M", disk="64M", build_timeout=4)
    assert result.error.kind in kinds


def test_code_is_compiled_with_the_files_beside_it():
    files = {"sums.c": '#include "sums.h"\nint add(int a, int b) { return a + b; }\n', "sums.h": "int add(int, int);\n"}
    code = '#include <stdio.h>\n#include "sums.h"\nint main(void) { printf("%d", add(1, 2)); }\n'
    result = cloche.run(code, language="c", files=files)
    assert result.stdout == "3", result.stderr


def test_a_source_that_another_includes_is_compiled_once():
    files = {
        "src/main.c": '#include <stdio.h>\n#include "../lib/one.c"\nint main(void) { printf("%d", one()); }\n',
        "lib/one.c": "int one(void) { return 1; }\n",
    }
    result = cloche.run(files=files)
    assert result.stdout == "1", result.stderr


def test_what_the_linker_misses_or_has_twice_is_said():
    without = cloche.run("int add(int a, int b) { return a + b; }\n", language="c")
    assert [(each.file, each.message[:27]) for each in without.diagnostics] == [
        ("main.c", "undefined reference to 'mai")
    ]
    files = {
        "main.c": "int one(void);\nint main(void) { return one(); }\n",
        "a.c": "int one(void) { return 1; }\n",
        "b.c": "int one(void) { return 1; }\n",
    }
    twice = cloche.run(files=files)
    assert twice.error is not None
    assert "multiple definition of" in twice.error.message


def test_what_includes_openmp_is_compiled_and_linked_with_it():
    project = Project(
        "/sandbox/code/main.c", "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    )
    assert compiler.libraries(project) == ["-fopenmp"]
