"""Java: whole programs, snippets, projects, errors of the compiler and of programs."""

from __future__ import annotations

from shutil import which

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.languages.java import definition as java
from cloche.languages.language import Project

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    needs("java")


@pytest.fixture(scope="module")
def box(jail):
    with cloche.Sandbox() as sandbox:
        yield sandbox


SNIPPET = """int counter = 0;
void count() { counter++; }
static <T> List<T> twice(T x) { return List.of(x, x); }
enum Color { RED }
record Circle(double radius) { Circle { count(); } }
int[] numbers = {1, 2};
Runnable shout = () -> { System.out.println("hey {"); };
shout.run();
for (int n : numbers) {
    count();
}
if (counter > 5) { System.out.println("many"); } else { System.out.println(new Circle(1) + " " + counter); }
System.out.println(twice(Color.RED) + "}".repeat(numbers.length));
"""


def test_statements_become_a_program(box):
    result = box.run_program(SNIPPET, language="java")
    assert result.stdout == "hey {\nCircle[radius=1.0] 3\n[RED, RED]}}\n", result.stderr
    assert result.build_time


def test_errors_are_where_their_author_made_them(box):
    result = box.run_program(
        'static int one() { return 1; }\n\tint x = "a";\nSystem.out.println(y);\n', language="java"
    )
    assert result.error.kind == "syntax"
    assert [str(each) for each in result.diagnostics] == [
        "Main.java:2:10: error: incompatible types: String cannot be converted to int",
        "Main.java:3:20: error: cannot find symbol (symbol: variable y, location: class Main)",
    ]
    assert "System.out.println(y);\n                   ^\n" in result.stderr


def test_an_exception_is_explained_with_the_lines_of_the_snippet(box):
    code = "String s = null;\nint length() { return 3; }\nSystem.out.println(length());\n\ns.length();\n"
    result = box.run_program(code, language="java")
    assert (result.stdout, result.exit_code, result.error.kind) == ("3\n", 1, "runtime")
    assert result.error.name == "java.lang.NullPointerException"
    assert '"s" is null' in result.error.message
    assert "Main.java:5" in result.error.traceback


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (
            'public class Foo {\n  public static void main(String... a) { System.out.print("foo"); }\n}\nclass Bar {}',
            "foo",
        ),
        (
            "package a.b;\nclass X { public static void main(String[] a) { System.out.print(X.class.getName()); } }",
            "a.b.X",
        ),
        ("class Out { static class In { public static void main(String[] a) { System.out.print(1); } } }", "1"),
        (
            "class A { public static void main(String[] a) { System.out.print(1); } }\n"
            "public class B { public static void main(String[] a) { System.out.print(2); } }",
            "2",
        ),
        ("void main() {\n  System.out.print(2);\n}", "2"),
        ("static void main(String[] args) { System.out.print(args.length); }", "0"),
        ("class Main { int x = 4; }\nSystem.out.print(new Main().x);", "4"),
    ],
)
def test_the_class_to_start_is_found(box, code, printed):
    result = box.run_program(code, language="java")
    assert result.stdout == printed, result.stderr


def test_a_class_without_main_is_nothing_to_run(box):
    result = box.run_program("class Solution { int one() { return 1; } }", language="java")
    assert result.error.message.startswith("there is no main method to run")


def test_the_heap_ends_before_the_sandbox_does(box):
    code = "List<long[]> all = new ArrayList<>();\nwhile (true) all.add(new long[1 << 20]);\n"
    result = box.run_program(code, language="java")
    assert (result.error.kind, result.error.name) == ("memory", "java.lang.OutOfMemoryError")


def test_more_threads_than_allowed_are_processes_not_memory():
    code = """for (int i = 0; i < 99; i++) {
        Thread thread = new Thread(() -> { try { Thread.sleep(60_000); } catch (InterruptedException e) { } });
        thread.setDaemon(true);
        thread.start();
    }"""
    result = cloche.run(code, language="java")
    assert result.error.kind == "processes"


@pytest.mark.parametrize(
    ("stderr", "name", "message"),
    [
        ('Exception in thread "main" a.B: one\ntwo\n\tat Main.main(Main.java:1)\n', "a.B", "one\ntwo"),
        ('x\nException in thread "main" a.B$C\n\tat Main.main(Main.java:1)\nCaused by: d.E: f\n', "a.B$C", ""),
    ],
)
def test_what_ended_a_program_is_read_from_its_last_words(stderr, name, message):
    failure = java.explain(stderr)
    assert failure is not None
    assert (failure.name, failure.message) == (name, message)


def test_the_exception_of_another_thread_ends_nothing():
    assert java.explain('Exception in thread "Thread-0" a.B: c\n\tat Main.run(Main.java:1)\n') is None


def test_classes_are_found_by_name_or_among_all_files():
    files = {
        "Main.java": "import util.Helper;\npublic class Main {\n"
        "  public static void main(String[] a) throws Exception {\n"
        '    var note = Main.class.getResourceAsStream("/note.txt");\n'
        "    System.out.println(Helper.NAME + new Hidden().x + note.read());\n  }\n}\n",
        "util/Helper.java": 'package util;\npublic class Helper { public static final String NAME = "helper"; }\n',
        "Shapes.java": "class Hidden { int x = 5; }\n",  # its file has another name
        "note.txt": "A",
    }
    result = cloche.run(files=files, language="java")
    assert result.stdout == "helper565\n", result.stderr


POM = """<project>
  <properties><maven.compiler.release>17</maven.compiler.release></properties>
  <dependencies>
    <dependency><groupId>org.junit</groupId><artifactId>junit</artifactId><scope>test</scope></dependency>
    <!-- <dependency><groupId>no</groupId><artifactId>thing</artifactId></dependency> -->
    {more}
  </dependencies>
  <build><plugins><plugin><configuration><mainClass>com.example.Start</mainClass></configuration></plugin></plugins></build>
</project>
"""


def test_a_maven_project_of_one_module():
    files = {
        "pom.xml": POM.format(more=""),
        "src/main/java/com/example/Start.java": "package com.example;\npublic class Start {\n"
        '  public static void main(String[] a) { System.out.println(new Part() + (a.length > 0 ? a[0] : "")); }\n}\n',
        "src/main/java/com/example/Part.java": "package com.example;\nclass Part {\n"
        "  public String toString() {\n"
        '    try (var in = getClass().getResourceAsStream("/words")) { return new String(in.readAllBytes()); }\n'
        '    catch (java.io.IOException e) { return ""; }\n  }\n}\n',
        "src/main/resources/words": "part ",
        "src/test/java/StartTest.java": "import org.junit.Test;\n",
    }
    result = cloche.run(files=files, language=None, args=["@a b"])
    assert result.stdout == "part @a b\n", result.stderr


def test_dependencies_that_are_not_there_are_named():
    more = "<dependency><groupId>com.google.guava</groupId>\n<artifactId>guava</artifactId></dependency>"
    files = {"pom.xml": POM.format(more=more), "src/main/java/App.java": "public class App {}\n"}
    result = cloche.run(files=files, entry="src/main/java/App.java")
    if which("mvn") is None:  # then nobody can provide them
        assert result.error.message.startswith("the dependency com.google.guava:guava is not here")
        assert (result.diagnostics[0].file, result.diagnostics[0].line) == ("pom.xml", 7)
    else:
        assert result.error.kind == "unavailable"
        assert "Maven cannot resolve the dependencies" in result.error.message  # guava has no version


def test_without_a_preparation_the_builder_is_compiled_first(monkeypatch):
    found = languages.tools(languages.find("java")).replace(prepared=None)
    monkeypatch.setitem(languages._found, "java", found)
    plan = java.plan(Project("/sandbox/code/Main.java", "", "/sandbox/code", snippet=True), found)
    assert [step.name for step in plan.before] == ["prepare", "compile"]
    assert not [word for word in (*plan.run, *plan.before[1].argv) if "jsa" in word]
    result = cloche.run('System.out.println("slow");', language="java")
    assert result.stdout == "slow\n", result.stderr


def test_lists_of_classes_from_two_jvms_agree_whatever_numbers_they_gave():
    first = ["# NOTE\n", "java/lang/Object id: 0\n", "java/util/Timer id: 275\n", "@lambda-proxy A run\n"]
    second = ["java/lang/Object\n", "java/util/Timer id: 276\n", "Own id: 277 super: 0 source: own.jar\n"]
    assert list(dict.fromkeys([*java._unnumbered(first), *java._unnumbered(second)])) == [
        "# NOTE\n",
        "java/lang/Object\n",
        "java/util/Timer\n",
        "@lambda-proxy A run\n",
    ]


def test_a_program_that_needs_too_much_memory_to_compile_is_at_a_limit():
    doubled = "\n".join(f"static final String a{n + 1} = a{n} + a{n};" for n in range(27))
    result = cloche.run(f'static final String a0 = "0123456789abcdef";\n{doubled}\n', language="java", memory="256M")
    assert result.error.kind == "memory"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("static int x;\nstatic { x = 5; }\nSystem.out.print(x);", "5"),
        ("static int[] a = {1, 2};\nstatic int last() { return a[1]; }\nSystem.out.print(last());", "2"),
        ("int n = 3;\nint[] memo = new int[n];\nint size() { return memo.length; }\nSystem.out.print(size());", "3"),
        ("static int n = 1, m = 2;\nstatic int sum() { return n + m; }\nSystem.out.print(sum());", "3"),
        ("int n = 1, m[] = {2};\nint sum() { return n + m[0]; }\nSystem.out.print(sum());", "3"),
        (
            'Supplier<String> f = () -> { return 7 + ";"; };\nString s() { return f.get(); }\nSystem.out.print(s());',
            "7;",
        ),
        (
            'static Map<String, Integer> m = new TreeMap<>() {{ put("a", 1); }};\nvoid main() { System.out.print(m); }',
            "{a=1}",
        ),
    ],
)
def test_fields_of_a_snippet_may_be_arrays_lambdas_and_several(box, code, printed):
    result = box.run_program(code, language="java")
    assert result.stdout == printed, result.stderr


def test_a_character_that_is_none_of_javas_is_pointed_at(box):
    for code, column, message in (
        ('System.out.println("open);', 20, "unclosed string literal"),
        ("System.out.println(\u201chi\u201d);", 20, "illegal character: '\\u201c'"),
    ):
        result = box.run_program(code, language="java")
        said = result.diagnostics[0]
        assert (said.line, said.column, said.message) == (1, column, message)


def test_a_mark_of_byte_order_is_passed_over(box):
    result = box.run_program("\ufeffSystem.out.print(1);", language="java")
    assert result.stdout == "1", result.stderr
