"""The event `waiting`: a program or a cell waits for input, and nobody has to guess when."""

from __future__ import annotations

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.engine.input_waits import InputWaits
from cloche.model.events import Output, Waiting

# Each reads two lines: by read, by poll in an event loop, through a C library, and in a child of a shell.
PROGRAMS = {
    "python": "a = input('? ')\nimport getpass\nprint(a, getpass.getpass('Password: '))",
    "javascript": "const lines = require('readline').createInterface({input: process.stdin});"
    "let a; lines.on('line', (b) => { if (a) { console.log(a, b); process.exit() } else a = b })",
    "bash": "head -c 0 /dev/null; read a; b=$(head -n 1); echo $a $b",
    "ruby": "a = gets; b = gets; puts a.strip + ' ' + b",
    "c": '#include <stdio.h>\nint main() { char a[9], b[9]; scanf("%8s %8s", a, b); printf("%s %s\\n", a, b); }',
}
CELLS = {
    "python": "a = input('? ')\nimport getpass\nprint(a, getpass.getpass('Password: '))",
    "bash": "read a; read b; echo $a $b",
    "javascript": "const a = prompt('?'); const b = prompt('?'); console.log(a, b)",
    "r": "a <- readline('? '); b <- readLines(stdin(), 1); cat(a, b)",
    "java": 'Scanner in = new Scanner(System.in); System.out.println(in.nextLine() + " " + in.nextLine());',
}
IMPATIENT = """import select, sys, time
for _ in range(30):
    select.select([sys.stdin], [], [], 0.03)
    time.sleep(0.03)
"""


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_reports_when_it_waits_for_input(box: cloche.Sandbox, language: str) -> None:
    process = box.start_program(PROGRAMS[language], language=language)
    process.is_followed = True
    words, said, reports = ["one\n", "two\n"], b"", []
    for event in process:
        if isinstance(event, Waiting):
            reports.append(event.waiting)
            if event.waiting and words:
                process.write(words.pop(0))
        elif isinstance(event, Output):
            said += event.data
    if process.result is not None and process.result.error and process.result.error.kind == "unavailable":
        pytest.skip(process.result.error.message)
    assert said.strip().endswith(b"one two")
    assert reports[:3] == [True, False, True]


@pytest.mark.parametrize("language", CELLS)
def test_a_cell_reports_when_it_waits_for_input(box: cloche.Sandbox, language: str) -> None:
    needs(language)
    events = box.stream(CELLS[language], language=language, interactive=True, timeout=60)
    words, said = ["one\n", "two\n"], ""
    for event in events:
        if isinstance(event, Waiting) and event.waiting:
            events.write(words.pop(0))
        elif isinstance(event, Output):
            said += event.text
    assert events.result.ok, events.result.error
    assert "one two" in said
    assert words == []


def test_code_that_does_not_read_reports_nothing(box: cloche.Sandbox) -> None:
    events = box.stream("import time; print('works', flush=True); time.sleep(0.8)", interactive=True)
    assert [event.kind for event in events if event.kind != "stdout"] == ["started", "end"]


def test_code_that_waits_again_and_again_reports_it_once(box: cloche.Sandbox) -> None:
    events = box.stream(IMPATIENT, interactive=True)
    assert [event.waiting for event in events if isinstance(event, Waiting)] == [True]


def test_callers_who_read_events_of_a_program_now_and_then_get_none(box: cloche.Sandbox) -> None:
    process = box.start_program("input()")
    process.write("one\n")
    assert "waiting" not in [event.kind for event in process]


def test_a_flood_of_forged_reports_is_one_event_for_each_input() -> None:
    waits = InputWaits()
    forged = [{"waiting": number % 2 == 0} for number in range(1000)]
    assert [event for report in forged if (event := waits.take(report))] == [Waiting(True), Waiting(False)]
    waits.input_sent()
    assert [event for report in forged if (event := waits.take(report))] == [Waiting(True), Waiting(False)]
    assert waits.take({"waiting": "yes"}) is None


def test_a_shell_in_a_terminal_shows_the_path_in_its_prompt(box: cloche.Sandbox) -> None:
    shell = box.commands.start(["bash"], pty=True)
    shell.write("cd code\nPS1='mine> '\necho $PS1\nexit\n")
    said = b"".join(event.data for event in shell if isinstance(event, Output))
    assert b"~\x1b[0m $ " in said
    assert b"~/code\x1b[0m $ " in said
    assert b"mine> echo" in said.replace(b"\x1b[?2004h", b"")
