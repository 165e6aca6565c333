"""Cells in Java: JShell keeps what they declare, and the last expression is the result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.model.events import Waiting

Run = Callable[..., cloche.Result]


@pytest.fixture
def java(box: cloche.Sandbox) -> Run:
    needs("java")
    return lambda code, timeout=60, **options: box.run(code, language="java", timeout=timeout, **options)


def test_variables_stay_and_the_last_expression_is_the_result(java: Run) -> None:
    first = java('int x = 41;\nString twice(String s) { return s + s; }\nSystem.out.println("größe");')
    assert (first.stdout, first.results) == ("größe\n", ())
    result = java('for (int i = 0; i < 2; i++) {\n    System.err.print(i);\n}\nList.of(twice("a"), x + 1)')
    assert (result.stderr, [display.text for display in result.results]) == ("01", ["[aa, 42]"])
    assert result.execution_count == 2
    whole = java('public class Main {\n    public static void main(String[] a) { System.out.println("a program"); }\n}')
    assert whole.stdout == "a program\n"


def test_a_class_may_name_what_is_declared_after_it(java: Run) -> None:
    sealed = "sealed interface Shape permits Square, Dot {}\nrecord Square(int side) implements Shape {}\n"
    assert (
        java(sealed + "record Dot() implements Shape {}\nShape shape = new Square(3);\nshape").text == "Square[side=3]"
    )
    missing = java("class Cat extends Animal { }\n1").error
    assert missing is not None
    assert (missing.name, missing.message) == ("UnresolvedReference", "not defined yet: class Animal")


def test_what_goes_wrong_is_told_and_nothing_is_lost(java: Run) -> None:
    java("int kept = 7;\nObject nothing = null;")
    raised = java("nothing.toString();")
    assert (raised.error.kind, raised.error.name) == ("runtime", "java.lang.NullPointerException")
    assert raised.error.message == 'Cannot invoke "Object.toString()" because "nothing" is null'
    own = java('class Broke extends Exception { Broke(String why) { super(why); } }\nthrow new Broke("money");')
    assert (own.error.name, own.error.message) == ("Broke", "money")
    broken = java("System.out.println(kept);\nint z = 5 +;")
    assert (broken.stdout, broken.error.kind, broken.error.name) == ("7\n", "syntax", "SyntaxError")
    assert broken.error.traceback == "line 2: error: illegal start of expression\nint z = 5 +;\n           ^"
    stopped = java("while (true) { }", timeout=1)
    assert (stopped.error.kind, stopped.restarted) == ("timeout", False)
    assert java("kept").results[0].text == "7"


def test_variables_of_the_environment_last_for_one_cell(java: Run) -> None:
    code = 'System.getenv("ONCE") + " " + System.getProperty("ONCE") + " " + (System.getProperty("HOME") != null)'
    assert java(code, env={"ONCE": "grüße\n="}).text == '"grüße\\n= grüße\\n= true"'
    assert java("throw new Exception();", env={"ONCE": "1"}).error is not None
    assert java(code).text == '"null null true"'
    assert java('System.getProperty("os.name")', env={"os.name": "another"}).text == '"Linux"'


def test_a_jvm_that_ends_is_followed_by_a_new_one(java: Run) -> None:
    ended = java("int x = 1;\nSystem.exit(3);")
    assert (ended.exit_code, ended.restarted) == (3, True)
    assert java("x").error.kind == "syntax"


def test_a_cell_reads_its_input_and_its_end(java: Run) -> None:
    assert (
        java("Scanner in = new Scanner(System.in);\nin.nextLine() + in.nextInt()", stdin="Ada\n36\n").text == '"Ada36"'
    )
    rest = "new BufferedReader(new InputStreamReader(System.in)).lines().toList()"
    assert java(rest, stdin="a\nb").text == "[a, b]"
    assert java("System.in.close();\nSystem.in.read()", stdin="x").text == "-1"
    assert java("in.hasNext()", stdin="next\n").text == "true"
    assert java("System.in.read()").text == "-1"


def test_a_java_that_waits_for_input_can_be_interrupted(box: cloche.Sandbox, java: Run) -> None:
    java("int kept = 7;")
    events = box.stream("System.in.read()", language="java", interactive=True)
    for event in events:
        if isinstance(event, Waiting) and event.waiting:
            box.interrupt("java")
    assert (events.result.error.kind, events.result.restarted) == ("killed", False)
    assert java("kept").text == "7"
