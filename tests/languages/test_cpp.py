"""C++: completed snippets, precompiled headers, exceptions, and hostile sources."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.languages import preparation
from cloche.languages.c.headers import missing_in_cpp
from cloche.languages.c.snippet import wrapped
from cloche.languages.cpp import definition as cpp
from cloche.languages.language import Project

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    needs("cpp")


SNIPPET = r"""template <typename T> T twice(T x) { return x + x; }
class Counter {
public:
    Counter(int start) : value(start) {}
    int next() { return value++; }
private:
    int value;
};
vector<int> v{3, 1, 2};
sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
Counter counter(7);
auto say = [&](auto x) { cout << x << ";"; };
for (int x : v) say(twice(x));
say(counter.next());
cout << endl;
"""


def test_statements_become_a_program():
    result = cloche.run(SNIPPET, language="cpp")
    assert result.stdout == "6;4;2;7;\n", result.stderr


def test_headers_may_be_beside_the_folder_of_the_sources():
    files = {
        "include/dog.hpp": "#pragma once\nstruct Dog { int legs() const; };\n",
        "src/dog.cpp": '#include "dog.hpp"\nint Dog::legs() const { return 4; }\n',
        "src/main.cpp": '#include <iostream>\n#include "dog.hpp"\nint main() { std::cout << Dog().legs(); }\n',
        "tests/dog.cpp": '#include "dog.hpp"\n#include <not/here.h>\n',
    }
    result = cloche.run(files=files)
    assert result.stdout == "4", result.stderr
    with cloche.Sandbox() as box:
        for name, text in files.items():
            box.files.write(name, text)
        assert box.run_program(entry="src/main.cpp").stdout == "4"


def test_a_class_may_be_defined_in_parts():
    code = """class Pair { int a, b; public: Pair(int a); ~Pair(); operator bool() const; };
Pair::Pair(int a) : a{a}, b{1} { std::cout << a + b; }
Pair::~Pair() { std::cout << "gone"; }
Pair::operator bool() const { return a > b; }
Pair pair(2);
std::cout << bool(pair);
"""
    result = cloche.run(code, language="cpp")
    assert result.stdout == "31gone", result.stderr


def test_an_error_is_where_its_author_made_it():
    result = cloche.run(f"{SNIPPET}  cout << unknown;\n", language="cpp")
    assert result.error.kind == "syntax"
    error = next(each for each in result.diagnostics if each.severity == "error")
    assert (error.file, error.line, error.column) == ("main.cpp", 16, 11)


def test_what_is_used_decides_what_stays_outside():
    whole = wrapped("int base = 1;\nint add(int x) { return x + base; }\nint x = 2;\nadd(x);\n", "main.cpp")
    assert whole is not None
    outside, inside = whole.split("int main()")
    assert "int base = 1;" in outside
    assert "int x = 2;" in inside  # a parameter of that name is another variable


def test_headers_are_added_for_what_is_said_with_its_namespace():
    assert missing_in_cpp('int main() { std::vector<std::string> v; std::puts("x"); }') == ("string", "vector")
    assert missing_in_cpp("int count = 0;\nusing namespace std;\nint main() { return count; }") == ()
    assert missing_in_cpp("using namespace std;\nint main() { map<int, int> m; cout << sqrt(2); }") == (
        "iostream",
        "map",
        "cmath",
    )


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("#include <vector>\n#include <iostream>\nint main() {}", "with_vectors"),
        ("#include <bits/stdc++.h>\nint main() {}", "everything"),
        ("#include <iostream>\n#define NDEBUG\n#include <vector>\nint main() {}", "input_output"),
        ("#define _GLIBCXX_DEBUG\n#include <iostream>\nint main() {}", ""),
        ("#include <vector>\nint main() {}", ""),
    ],
)
def test_only_what_a_program_includes_is_given_to_it(source, header):
    found = languages.tools(languages.find("cpp"))
    project = Project("/sandbox/main.cpp", source, "/sandbox", frozenset(("main.cpp",)))
    command = cpp.plan(project, found.replace(prepared="/ahead")).before[0].argv
    assert [word for word in command if word.startswith("/ahead")] == ([f"/ahead/{header}.h"] if header else [])


def test_headers_compiled_ahead_are_taken():
    language = languages.find("cpp")
    found = languages.tools(language)
    assert found is not None
    if preparation.is_missing(language, found):
        pytest.skip("C++ is not prepared on this host: cloche languages prepare cpp")
    project = Project("/sandbox/main.cpp", "#include <iostream>\n", "/sandbox", frozenset(("main.cpp",)))
    command = cpp.plan(project, found).before[0].argv
    with cloche.Sandbox() as box:
        box.files.write("main.cpp", "#include <iostream>\nint main() {}\n")
        box.commands.run(["mkdir", "/tmp/build"])
        output = box.commands.run([*command, "-H", "-Winvalid-pch"]).stderr
    assert output.startswith("! ")  # GCC's mark for a precompiled header that was used
    assert "x " not in output


def test_an_exception_that_nobody_catches_is_explained():
    code = '#include <stdexcept>\nint main() { throw std::out_of_range("too\\nfar"); }'
    result = cloche.run(code, language="cpp")
    assert (result.error.kind, result.error.name, result.error.message) == ("runtime", "std::out_of_range", "too\nfar")
    assert result.exit_code == 134
    needy = cloche.run("#include <vector>\nint main() { std::vector<char> v(1L << 62); }", language="cpp")
    assert needy.error.kind in ("memory", "runtime")


def test_c_and_cpp_in_one_project():
    files = {
        "main.cpp": '#include <iostream>\nextern "C" {\n#include "sums.h"\n}\nint main() { std::cout << sum(2, 3); }',
        "src/sums.c": '#include "sums.h"\nint sum(int a, int class) { return a + class; }',
        "include/sums.h": "int sum(int, int);",
        "other.cc": "int main() {}",
    }
    result = cloche.run(files=files, language="cpp")
    assert result.stdout == "5", result.stderr


def test_a_bomb_of_templates_ends_at_a_limit():
    code = """
template <int n, class T> struct S { S<n - 1, S<n - 1, T>> left; S<n - 1, S<n - 2, T>> right; };
template <class T> struct S<0, T> { int x; };
template <class T> struct S<-1, T> { int x; };
int main() { return sizeof(S<60, int>); }
"""
    result = cloche.run(code, language="cpp", memory="256M", build_timeout=4)
    assert result.error.kind in ("memory", "timeout")


def test_a_whole_program_gets_the_namespace_that_it_forgets():
    code = "class Sum {\npublic:\n  int of(vector<int> v) { return v[0] + v[1]; }\n};\n"
    code += "int main() { cout << Sum().of({1, 2}); }\n"
    assert cloche.run(code, language="cpp").stdout == "3"
    wrong = cloche.run(code.replace("v[1]", "w"), language="cpp")
    assert (wrong.diagnostics[0].file, wrong.diagnostics[0].line, wrong.diagnostics[0].column) == ("main.cpp", 3, 41)


def test_a_constant_that_a_shared_array_is_as_long_as_stays_outside():
    code = "const int N = 3;\nint a[N];\nint last() { return a[N - 1]; }\na[2] = 7;\ncout << last();\n"
    result = cloche.run(code, language="cpp")
    assert result.stdout == "7", result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "#include <expected>\n#include <iostream>\nint main() { std::expected<int, int> e = 5; std::cout << *e; }\n",
        'std::string s = "abc";\nstd::cout << (s.contains("b") ? 5 : 0);\n',
        "enum class Size { small = 5 };\nstd::cout << std::to_underlying(Size::small);\n",
    ],
)
def test_what_is_new_in_cpp_23_is_compiled_as_that(code):
    result = cloche.run(code, language="cpp")
    assert (result.stdout, result.diagnostics) == ("5", ()), result.stderr


HOSTILE = {
    "colons after a function": "int f() " + ":" * 60 + "?;",
    "returned types": "int f() " + "-> & & & " * 40 + "?;",
    "returned types without an end": "int f() " + "-> & & & " * 40 + "(",
    "templates": "a<b> " * 60 + "?;",
    "pointers to templates": "a<b>*" * 60 + "?;",
    "nested templates": "a<b<c<d>>> " * 60 + "?;",
    "templates that are not closed": "a<b<c " * 60 + "?;",
    "templates in an argument": "struct s { void f(" + "a<b> " * 60 + "?); };",
}
READ = "import sys; from cloche.languages.c import snippet; text = sys.stdin.read(); "
READ += "snippet.wrapped(text, 'main.cpp'); snippet.stands_alone(text)"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_source_can_be_read_in_so_many_ways_that_it_is_never_done(name: str) -> None:
    """A search without an end would hold the whole server, from a thread as well; so it has a process of its own."""
    subprocess.run(
        [sys.executable, "-c", READ], input=f"{HOSTILE[name]}\nint x = 1;", text=True, timeout=60, check=True
    )
