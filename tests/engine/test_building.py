"""What comes before a program: compilers, with limits, output and clocks of their own."""

from __future__ import annotations

import shutil

import pytest

import cloche
from cloche.model.events import Building, Exit, Output, Started

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")

ECHO = "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) putchar(c); return 7; }"
ENDLESS = "int main(void) { for (;;); }"


def test_input_that_comes_while_it_is_built_waits_for_the_program() -> None:
    text = "line\n" * 200_000
    result = cloche.run(ECHO, language="c", stdin=text)
    assert (result.stdout, result.exit_code) == (text, 7)


def test_building_and_running_are_timed_apart(box: cloche.Sandbox) -> None:
    result = box.run_program("#include <unistd.h>\nint main(void) { usleep(300000); }", language="c")
    assert result.ok
    assert result.build_time is not None
    assert result.build_time > 0
    assert 0.3 <= result.duration < 10
    assert box.run_program("print(1)").build_time is None


def test_they_are_also_for_who_listens_late(box: cloche.Sandbox) -> None:
    code = '#include <fcntl.h>\n#include <unistd.h>\nint main(void) { usleep(300000); creat("over", 0644); }'
    process = box.start_program(code, language="c", stdin=False)
    assert box.commands.run("until [ -e over ]; do sleep 0.01; done").ok
    result = process.finish(None)
    assert result.build_time is not None
    assert result.build_time > 0
    assert 0.3 <= result.duration < 10


def test_the_time_to_build_is_limited_apart_from_the_time_to_run(box: cloche.Sandbox) -> None:
    slow = '#include "/sandbox/fifo"\nint main(void) {}'
    box.commands.run("mkfifo /sandbox/fifo")
    result = box.run_program(slow, language="c", build_timeout=0.5, timeout=20)
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == ("timeout", 124)
    assert "compile" in result.error.message
    assert "build_timeout" in result.error.hint
    result = box.run_program(ENDLESS, language="c", build_timeout=20, timeout=0.5)
    assert result.error is not None
    assert result.error.kind == "timeout"
    assert "program" in result.error.message
    assert result.build_time is not None
    assert result.duration < 5


def test_a_compiler_has_no_more_memory_than_the_sandbox() -> None:
    result = cloche.run('#include "/dev/zero"\nint main(void) {}', language="c", memory="128M", build_timeout=30)
    assert result.error is not None
    assert result.error.kind == "memory"


def test_what_the_compiler_says_is_told_as_diagnostics_and_on_standard_error(box: cloche.Sandbox) -> None:
    result = box.run_program("int main(void) {\n  return 1 +;\n}", language="c")
    assert result.error is not None
    assert result.error.kind == "syntax"
    first = result.diagnostics[0]
    assert (first.file, first.line, first.severity) == ("main.c", 2, "error")
    assert first.message in result.stderr
    assert result.exit_code == 1
    assert result.duration == 0


def test_events_tell_of_the_build_and_what_it_said(box: cloche.Sandbox) -> None:
    kinds = [type(event) for event in box.stream_program("int main(void) { return 0; }", language="c")]
    assert list(dict.fromkeys(kinds)) == [Building, Started, Exit]  # where it is prepared, linking is a step of its own
    events = list(box.stream_program("int main(void) { return x; }", language="c"))
    assert [type(event) for event in events] == [Building, Output, Exit]
    assert isinstance(events[1], Output)
    assert "undeclared" in events[1].text


def test_a_build_can_be_called_off(box: cloche.Sandbox) -> None:
    box.commands.run("mkfifo /sandbox/never")
    process = box.start_program('#include "/sandbox/never"\nint main(void) {}', language="c")
    process.kill()
    result = process.wait()
    assert result.error is not None
    assert result.error.kind == "killed"
    assert box.commands.run("pgrep cc1 || true").stdout == ""


def test_a_project_in_the_sandbox_is_built_from_all_its_files(box: cloche.Sandbox) -> None:
    box.files.write("app/main.c", '#include "lib/seven.h"\nint main(void) { return seven(); }')
    box.files.write("app/lib/seven.h", "int seven(void);")
    box.files.write("app/lib/seven.c", "int seven(void) { return 7; }")
    assert box.run_program(entry="app/main.c").exit_code == 7
    with pytest.raises(cloche.FileMissing):
        box.run_program(entry="app/none.c")


def test_a_language_without_sessions_runs_as_a_program_between_cells(box: cloche.Sandbox) -> None:
    box.run("x = 20")
    made = box.run('#include <stdio.h>\nint main(void) { fputs("22", fopen("/sandbox/y", "w")); }', language="c")
    assert made.ok
    assert box.run("x + int(open('/sandbox/y').read())").text == "42"
    assert [context.id for context in box.contexts.list()] == ["python"]
    kinds = [event.kind for event in box.stream("int main(void) { return 3; }", language="c")]
    assert kinds == ["started", "error", "end"]
    events = box.stream(ENDLESS, language="c", timeout=30)
    assert next(events).kind == "started"
    box.interrupt()
    assert [event.kind for event in events] == ["error", "end"]
    assert events.result is not None
    assert events.result.error is not None
    assert events.result.error.kind == "killed"
    assert box.run("x").text == "20"
