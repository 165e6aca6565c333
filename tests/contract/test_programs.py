"""Behind every wall: programs, their streams, their files, and how they end."""

from __future__ import annotations

import os

import pytest

import cloche


def test_a_program_gets_its_input_and_gives_its_output(isolation: str) -> None:
    code = (
        "import os, sys\n"
        "print(input(), open('in.txt').read(), sys.argv[1], os.environ['COLOUR'])\n"
        "print('trouble', file=sys.stderr)\n"
        "sys.exit(3)"
    )
    result = cloche.run(
        code, isolation=isolation, stdin="typed\n", files={"in.txt": "given"}, args=["said"], env={"COLOUR": "red"}
    )
    assert (result.stdout, result.stderr, result.exit_code) == ("typed given said red\n", "trouble\n", 3)
    assert result.error.kind == "exit"
    assert result.wall == isolation


def test_exit_codes_are_those_of_the_program(box: cloche.Sandbox) -> None:
    assert box.commands.run("exit 0").exit_code == 0
    assert box.commands.run("exit 42").exit_code == 42
    assert box.commands.run("kill -9 $$").exit_code == 128 + 9


def test_a_failure_of_the_program_is_data(box: cloche.Sandbox) -> None:
    assert box.run_program("1 / 0").error.name == "ZeroDivisionError"
    assert box.run_program("def f(:").error.kind == "syntax"
    assert box.run_program("print(1)").error is None


def test_output_arrives_while_the_program_runs(box: cloche.Sandbox) -> None:
    process = box.start_program("print('question', flush=True); print(input()[::-1])")
    events = iter(process)
    output = b""
    while not output.endswith(b"question\n"):
        output += getattr(next(events), "data", b"")
    process.write("answer\n")
    assert process.wait().stdout == "question\nrewsna\n"


def test_a_program_can_be_signalled(box: cloche.Sandbox) -> None:
    process = box.start_program("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    for event in process:
        if getattr(event, "data", b"") == b"ready\n":
            break
    process.signal("SIGTERM")
    assert process.wait().exit_code == 128 + 15


def test_bytes_pass_unchanged_in_both_directions(box: cloche.Sandbox) -> None:
    data = os.urandom(1 << 20) + bytes(range(256)) + b"\n" * 1000
    box.files.write("data.bin", data)
    assert box.files.read("data.bin") == data
    assert box.commands.run("cat", stdin=data).stdout_bytes == data


def test_files_of_a_sandbox_are_there_for_programs_and_back(box: cloche.Sandbox) -> None:
    box.files.write("data/in.txt", "from outside")
    assert box.run_program("print(open('data/in.txt').read())").stdout == "from outside\n"
    box.run_program("import os; os.makedirs('made', exist_ok=True); open('made/out.txt', 'w').write('from inside')")
    assert box.files.read_text("made/out.txt") == "from inside"
    assert "out.txt" in [entry.name for entry in box.files.list("made")]
    with pytest.raises(cloche.FileMissing):
        box.files.read("not there")


def test_a_command_that_ends_takes_its_children_with_it(box: cloche.Sandbox) -> None:
    result = box.commands.run("setsid sleep 4242 & sleep 4243", timeout=1)
    assert result.error.kind == "timeout"
    assert "424" not in box.commands.run("ps -eo args | grep '[s]leep'").stdout


def test_a_server_inside_is_reached_from_outside(box: cloche.Sandbox) -> None:
    box.files.write("page/index.html", "hello")
    server = box.commands.start(["python3", "-m", "http.server", "8000", "--directory", "page"])
    box.ports.wait(8000)
    with box.ports.connect(8000) as connection:
        connection.send("GET / HTTP/1.0\r\n\r\n")
        answer = b"".join(connection)
    server.kill()
    assert answer.startswith(b"HTTP/1.0 200 OK")
    assert answer.endswith(b"hello")
