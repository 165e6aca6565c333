"""The calls in a traceback, of every language that prints them, and of hostile ones."""

from __future__ import annotations

import time

import pytest

import cloche
from cloche.engine.stack_frames import MAX_FRAMES, MAX_OLDER, MAX_RAISED, MAX_TEXT, raised_in
from cloche.model.result import Raised

PYTHON = """
import json
def use(text):
    try:
        {}["name"]
    except KeyError as problem:
        raise ValueError("no") from problem
use("{")
"""


def places(raised: Raised) -> list[tuple[str, int, str, str]]:
    return [(frame.file, frame.line, frame.function, frame.code) for frame in raised.frames if frame.is_own]


def test_a_program_in_python_has_the_newest_exception_first_and_the_innermost_call_first(jail: None) -> None:
    error = cloche.run(PYTHON).error
    assert error is not None
    latest, cause = error.raised
    main = "/sandbox/code/main.py"
    assert (latest.name, latest.message, latest.link) == ("ValueError", "no", "")
    assert places(latest) == [
        (main, 7, "use", 'raise ValueError("no") from problem'),
        (main, 8, "", 'use("{")'),
    ]
    assert (cause.name, cause.message, cause.link) == ("KeyError", "'name'", "cause")
    assert places(cause) == [(main, 5, "use", '{}["name"]')]


@pytest.mark.parametrize(
    ("language", "code", "own"),
    [
        ("javascript", "function f() {\n  null.x;\n}\nf();\n", [(2, "f"), (4, "")]),
        ("typescript", "function f(x: any): number {\n  return x.y.z;\n}\nf({});\n", [(2, "f"), (4, "")]),
        ("bash", "echo begins\nnosuch\n", [(2, "")]),
    ],
)
def test_programs_in_other_languages_have_calls_too(
    jail: None, language: str, code: str, own: list[tuple[int, str]]
) -> None:
    error = cloche.run(code, language=language).error
    assert error is not None
    (raised,) = error.raised
    assert [(line, function) for _, line, function, _ in places(raised)] == own
    assert all(file.startswith("/sandbox/code/main.") for file, *_ in places(raised))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("/sandbox/a.rb:2:in `f': no (RuntimeError)\n\tfrom /sandbox/a.rb:4:in `<main>'", [(2, "f"), (4, "")]),
        (
            "Fatal error:  Uncaught Exception: no in /sandbox/a.php:3\n"
            "Stack trace:\n#0 /sandbox/a.php(5): f()\n#1 {main}",
            [(3, ""), (5, "f")],
        ),
        (
            "panic: no\n\ngoroutine 1 [running]:\nmain.f(...)\n\t/sandbox/a.go:2\nmain.main()\n\t/sandbox/a.go:4 +0xa",
            [(2, "main.f"), (4, "main.main")],
        ),
        (
            'Exception in thread "main" E: no\n\tat Main.f(Main.java:3)\n'
            "\tat java.base/java.lang.Thread.run(Thread.java:9)",
            [(3, "Main.f")],
        ),
        (
            "/sandbox/a.lua:2: no\nstack traceback:\n\t[C]: in function 'error'\n\t/sandbox/a.lua:4: in main chunk",
            [(4, "")],
        ),
        ("no at /sandbox/a.pl line 2.", [(2, "")]),
    ],
    ids=["ruby", "php", "go", "java", "lua", "perl"],
)
def test_the_formats_of_toolchains_that_a_host_may_lack(text: str, own: list[tuple[int, str]]) -> None:
    (raised,) = raised_in("E", "no", text)
    assert [(line, function) for _, line, function, _ in places(raised)] == own


def test_cells_and_files_of_the_project_are_own_code_and_libraries_are_not(box: cloche.Sandbox) -> None:
    box.files.write("/sandbox/helper.py", "import json\ndef load(text):\n    return json.loads(text)\n")
    box.run("import helper\ndef use(text):\n    return helper.load(text)")
    result = box.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    use('{')")
    assert result.error is not None
    latest, earlier = result.error.raised
    assert [frame.is_own for frame in latest.frames] == [False, False, False, True, True, True]
    assert places(latest)[0] == ("/sandbox/helper.py", 3, "load", "return json.loads(text)")
    assert [(frame.cell, frame.line) for frame in latest.frames[4:]] == [(1, 3), (2, 4)]
    assert (earlier.name, earlier.link, earlier.frames[0].line) == ("ZeroDivisionError", "context", 2)
    syntax = box.run("x = 1\ny = = 2").error
    assert syntax is not None
    assert [(frame.cell, frame.line, frame.code) for frame in syntax.raised[0].frames] == [(3, 2, "y = = 2")]
    group = box.run("raise ExceptionGroup('many', [ValueError(1)])").error
    assert group is not None
    assert [(frame.cell, frame.line) for frame in group.raised[0].frames] == [(4, 1)]


def test_a_cell_in_javascript_has_its_cause(box: cloche.Sandbox) -> None:
    code = "function f() {\n  null.x;\n}\ntry { f(); } catch (e) { throw new Error('outer', {cause: e}); }"
    error = box.run(code, language="javascript").error
    assert error is not None
    latest, cause = error.raised
    assert [(frame.cell, frame.line, frame.column) for frame in latest.frames] == [(1, 4, 32)]
    assert (cause.name, cause.link) == ("TypeError", "cause")
    assert [(frame.line, frame.function) for frame in cause.frames] == [(2, "f"), (4, "")]


def test_endless_recursion_is_counted_and_not_listed(box: cloche.Sandbox) -> None:
    error = box.run("def again(n):\n    return again(n + 1)\nagain(0)").error
    assert error is not None
    assert len(error.raised[0].frames) < 10
    assert error.raised[0].omitted > 50


def test_a_traceback_without_calls_has_none() -> None:
    assert raised_in("Error", "no", "Error: no\nsomething else") == ()


def test_a_hostile_traceback_is_bounded_in_every_way() -> None:
    frame = f'  File "/sandbox/{"a" * 500}.py", line 999999999, in {"f" * 900}\n    {"x" * 900}\n'
    block = "Traceback (most recent call last):\n" + frame * 400 + "ValueError: no\n\n"
    chain = "During handling of the above exception, another exception occurred:\n\n"
    begin = time.process_time()
    found = raised_in("N" * 10_000, "m" * 100_000, (block + chain) * 10)
    assert time.process_time() - begin < 2
    assert len(found) <= MAX_RAISED
    assert len(found[0].frames) <= MAX_FRAMES
    assert all(len(one.frames) <= MAX_OLDER for one in found[1:])
    texts = [text for one in found for frame in one.frames for text in (frame.file, frame.function, frame.code)]
    assert max(map(len, [found[0].name, *texts])) <= MAX_TEXT


@pytest.mark.parametrize("line", [" " * 100_000, "at " * 50_000, "a(" * 50_000, "#0 /" + "(" * 90_000, "-" * 100_000])
def test_no_line_takes_long_to_read(line: str) -> None:
    begin = time.process_time()
    raised_in("E", "no", "\n".join([line] * 40))
    assert time.process_time() - begin < 2
