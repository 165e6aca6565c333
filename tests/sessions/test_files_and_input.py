"""What goes in and what comes out: standard input, the environment of one run, and the files that it leaves."""

# ruff: noqa: E501  (code is easier to compare when each piece is one line)

from __future__ import annotations

import asyncio
import hashlib
import threading

import pytest

import cloche

# --- standard input


def test_input_is_answered_from_what_was_given(shared: cloche.Sandbox) -> None:
    result = shared.run("name = input('Who? '); age = int(input()); (name, age)", stdin="Ada\n36\n")
    assert (result.text, result.stdout) == ("('Ada', 36)", "Who? ")


@pytest.mark.parametrize("code", ["input()", "import getpass; getpass.getpass()", "x = input('Name? ')"])
def test_input_without_any_is_an_error_at_once_that_says_what_to_do(shared: cloche.Sandbox, code: str) -> None:
    result = shared.run(code)
    assert result.duration < 2
    assert result.error.kind == "runtime"
    assert "stdin=" in result.error.message + result.error.hint


def test_more_questions_than_answers_is_an_error_at_once(shared: cloche.Sandbox) -> None:
    result = shared.run("input(), input()", stdin="only\n")
    assert (result.error.kind, result.error.name) == ("runtime", "EOFError")
    assert result.duration < 2


def test_input_is_for_one_cell_alone(shared: cloche.Sandbox) -> None:
    assert shared.run("input()", stdin="a\nleft over\n").text == "'a'"
    assert not shared.run("input()").ok
    assert shared.run("input()", stdin="b\n").text == "'b'"


@pytest.mark.parametrize(
    ("given", "bytes_"), [("", b""), ("ü", "ü".encode()), (b"\xff\0", b"\xff\0"), (bytearray(b"a"), b"a")]
)
def test_input_is_a_text_or_bytes(shared: cloche.Sandbox, given: str | bytes, bytes_: bytes) -> None:
    assert shared.run("import sys; sys.stdin.buffer.read()", stdin=given).text == repr(bytes_)


def test_lines_of_input_can_be_read_as_from_a_file(shared: cloche.Sandbox) -> None:
    assert shared.run("import sys; [line.strip() for line in sys.stdin]", stdin="a\nb\n").text == "['a', 'b']"


def test_commands_read_the_same_input(shared: cloche.Sandbox) -> None:
    assert shared.run("!cat", stdin="through\n").stdout == "through\n"
    assert shared.run("%%bash\nread x; echo $x", stdin="bashed\n").ok
    assert shared.run("import subprocess; subprocess.run('cat')", stdin="child\n").stdout == "child\n"


def test_a_command_without_input_does_not_wait(shared: cloche.Sandbox) -> None:
    result = shared.run("!cat")
    assert (result.ok, result.stdout) == (True, "")


def test_ten_megabytes_of_input_arrive(shared: cloche.Sandbox) -> None:
    data = bytes(range(256)) * 40_000
    result = shared.run("import hashlib, sys; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()", stdin=data)
    assert result.text == repr(hashlib.sha256(data).hexdigest())


def test_input_that_is_never_read_holds_nobody_up(shared: cloche.Sandbox) -> None:
    result = shared.run("'done'", stdin=bytes(20 << 20))
    assert (result.text, result.duration < 5) == ("'done'", True)
    assert shared.run("1").text == "1"


def test_input_and_output_flow_at_the_same_time(shared: cloche.Sandbox) -> None:
    data = b"0123456789abcde\n" * (5 << 15)
    result = shared.run("import sys\nfor line in sys.stdin.buffer: _ = sys.stdout.buffer.write(line)", stdin=data)
    assert result.stdout_bytes == data


@pytest.mark.parametrize(
    "code", ["breakpoint()", "import pdb; pdb.set_trace()", "from IPython.core.debugger import set_trace; set_trace()"]
)
def test_a_debugger_never_waits(shared: cloche.Sandbox, code: str) -> None:
    result = shared.run(f"x = 1\n{code}\ny = 2")
    assert result.ok, result.error
    assert result.duration < 5
    assert shared.run("x").text == "1"


# --- input while a cell runs

ASKING = {
    "python": "name = input('Who? ')\nprint('hello', name)\nprint('and', input('Who else? '))",
    "bash": "printf 'Who? '; read name; echo hello $name; printf 'Who else? '; read other; echo and $other",
    "javascript": "const name = prompt('Who?');\nconsole.log('hello', name);\nconsole.log('and', prompt('Who else?'))",
}


@pytest.mark.parametrize("language", ASKING)
def test_a_cell_is_answered_while_it_runs(shared: cloche.Sandbox, language: str) -> None:
    events = shared.stream(ASKING[language], language=language, interactive=True)
    printed, answers = "", ["Ada\n", "Grace\n"]
    for event in events:
        if event.kind == "stdout":
            printed += event.text
            if printed.rstrip().endswith("?") and answers:
                events.write(answers.pop(0))
    assert event.result.ok, event.result.error
    assert printed.split() == ["Who?", "hello", "Ada", "Who", "else?", "and", "Grace"]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"),
        ("bash", "while read line; do echo ${line^^}; done"),
        ("javascript", "for await (const data of process.stdin) console.log(String(data).trim().toUpperCase())"),
        ("typescript", "for await (const data of process.stdin) console.log(String(data).trim().toUpperCase())"),
    ],
)
def test_a_cell_converses_until_its_input_is_closed(shared: cloche.Sandbox, language: str, code: str) -> None:
    events = shared.stream(code, language=language, interactive=True)
    words, printed = ["one", "two", "three"], ""
    for event in events:
        if event.kind == "started" or event.kind == "stdout":
            printed += event.text if event.kind == "stdout" else ""
            if words:
                events.write(f"{words.pop(0)}\n")
            else:
                events.close_stdin()
    assert event.result.ok, event.result.error
    assert printed == "ONE\nTWO\nTHREE\n"
    assert shared.run("1 + 1", language="python").text == "2"


@pytest.mark.parametrize("language", ["python", "bash", "javascript"])
def test_input_that_is_closed_at_once_is_empty(shared: cloche.Sandbox, language: str) -> None:
    codes = {
        "python": "import sys; sys.stdin.read()",
        "bash": "cat",
        "javascript": "require('fs').readFileSync(0, 'utf8')",
    }
    code = codes[language]
    events = shared.stream(code, language=language, interactive=True)
    events.close_stdin()
    end = list(events)[-1]
    assert end.kind == "end"
    assert end.result.ok
    assert end.result.text in ("''", None)


@pytest.mark.parametrize("language", ["python", "bash", "javascript"])
def test_a_cell_whose_question_is_never_answered_ends_in_time(shared: cloche.Sandbox, language: str) -> None:
    (*_, end) = shared.stream(ASKING[language], language=language, interactive=True, timeout=0.5)
    assert end.kind == "end"
    assert end.result.error.kind == "timeout"
    assert end.result.duration < 5
    assert shared.run("'again'" if language != "bash" else "echo again", language=language).ok


def test_what_is_written_to_a_cell_that_has_ended_is_thrown_away(shared: cloche.Sandbox) -> None:
    events = shared.stream("1", interactive=True)
    events.write(bytes(10 << 20))
    assert list(events)[-1].result.text == "1"
    events.write("late")
    events.close_stdin()
    assert shared.run("2").text == "2"


def test_ten_megabytes_are_written_to_a_running_cell(shared: cloche.Sandbox) -> None:
    data = bytes(range(256)) * 40_000
    code = "import hashlib, sys; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()"
    events = shared.stream(code, interactive=True)
    for start in range(0, len(data), 1 << 20):
        events.write(data[start : start + (1 << 20)])
    events.close_stdin()
    assert list(events)[-1].result.text == repr(hashlib.sha256(data).hexdigest())


def test_only_an_interactive_cell_takes_input_while_it_runs(shared: cloche.Sandbox) -> None:
    events = shared.stream("1", stdin="all of it")
    with pytest.raises(cloche.InvalidRun, match="interactive"):
        events.write("more")
    with pytest.raises(cloche.InvalidRun, match="interactive"):
        shared.stream("1", stdin="some", interactive=True)
    assert list(events)[-1].result.text == "1"


async def test_questions_are_answered_by_another_task(warm: None) -> None:
    async with cloche.AsyncSandbox() as box:
        events = box.stream("[input() for _ in range(3)]", interactive=True)

        async def answer() -> None:
            for word in ("a", "b", "c"):
                await events.write(f"{word}\n")

        async with asyncio.TaskGroup() as group:
            group.create_task(answer())
            told = [event async for event in events]
        assert told[-1].result.text == "['a', 'b', 'c']"


# --- the environment of one run


def test_variables_of_one_run_are_gone_after_it(shared: cloche.Sandbox) -> None:
    code = "import os; os.environ.get('ONCE')"
    assert shared.run(code, env={"ONCE": "grüße\n="}).text == repr("grüße\n=")
    assert shared.run(code).text is None


def test_children_see_them(shared: cloche.Sandbox) -> None:
    assert shared.run("!echo $ONCE", env={"ONCE": "seen"}).stdout == "seen\n"


def test_what_they_hid_comes_back(shared: cloche.Sandbox) -> None:
    shared.run("import os; os.environ['HIDDEN'] = 'before'")
    assert shared.run("os.environ['HIDDEN']", env={"HIDDEN": "now"}).text == "'now'"
    assert shared.run("os.environ['HIDDEN']").text == "'before'"


def test_they_are_gone_also_when_the_run_fails_or_is_stopped(shared: cloche.Sandbox) -> None:
    shared.run("1 / 0", env={"ONCE": "1"})
    shared.run("while True: pass", env={"ONCE": "1"}, timeout=0.3)
    assert shared.run("import os; os.environ.get('ONCE')").text is None


# --- artifacts


def test_files_that_a_cell_wrote_to_the_output_folder_are_its_artifacts(box: cloche.Sandbox) -> None:
    code = (
        "import os\nos.makedirs('output/deep/er')\nopen('output/a.csv', 'w').write('1,2')\n"
        "open('output/deep/er/b.png', 'wb').write(b'png')\nopen('output/c', 'w').close()\nopen('elsewhere.txt', 'w').close()"
    )
    assert [(file.path, file.size, file.mime) for file in box.run(code).artifacts] == [
        ("/sandbox/output/a.csv", 3, "text/csv"),
        ("/sandbox/output/c", 0, "application/octet-stream"),
        ("/sandbox/output/deep/er/b.png", 3, "image/png"),
    ]
    assert box.run("1").artifacts == ()


def test_a_changed_file_is_an_artifact_again_and_others_are_not(box: cloche.Sandbox) -> None:
    box.run("open('output/a', 'w').write('1'); open('output/b', 'w').write('1')")
    assert [file.path for file in box.run("open('output/a', 'a').write('2')").artifacts] == ["/sandbox/output/a"]
    renamed = box.run("import os; os.rename('output/b', 'output/c')")
    assert [file.path for file in renamed.artifacts] == ["/sandbox/output/c"]
    assert box.run("os.remove('output/a')").artifacts == ()


def test_a_file_of_the_same_size_and_time_is_seen_to_have_changed(box: cloche.Sandbox) -> None:
    box.run("import os; open('output/a', 'w').write('1'); status = os.stat('output/a')")
    code = "open('output/a', 'w').write('2'); os.utime('output/a', ns=(status.st_atime_ns, status.st_mtime_ns))"
    assert [file.path for file in box.run(code).artifacts] == ["/sandbox/output/a"]


def test_a_failed_cell_and_a_crashed_one_have_artifacts_too(box: cloche.Sandbox) -> None:
    assert len(box.run("open('output/a', 'w').write('1'); 1 / 0").artifacts) == 1
    assert (
        len(box.run("import os; os.write(os.open('output/b', os.O_CREAT | os.O_RDWR), b'1'); os._exit(1)").artifacts)
        == 1
    )


def test_what_others_wrote_before_is_no_artifact_of_this_cell(box: cloche.Sandbox) -> None:
    box.files.write("output/given", b"1")
    assert box.run("1").artifacts == ()


def test_the_number_of_artifacts_is_bounded(box: cloche.Sandbox) -> None:
    assert len(box.run("for n in range(1000): open(f'output/{n}', 'w').close()").artifacts) == 200


def test_long_names_of_many_files_do_not_break_anything(box: cloche.Sandbox) -> None:
    code = (
        "import os\nfolder = '/sandbox/output'\nfor _ in range(6): folder += '/' + 'é' * 120\nos.makedirs(folder)\n"
        "for n in range(300): open(f'{folder}/{n}', 'w').close()\nopen('/sandbox/output/\\udcff', 'w').close()"
    )
    result = box.run(code)
    assert result.ok
    assert 10 < len(result.artifacts) <= 200
    assert box.run("1").text == "1"


def test_links_out_of_the_output_folder_are_not_followed(box: cloche.Sandbox) -> None:
    box.run("open('secret', 'w').write('x')")
    assert box.run("import os; os.symlink('/sandbox/secret', 'output/a'); os.symlink('/', 'output/b')").artifacts == ()
    code = "os.remove('output/a'); os.remove('output/b'); os.rmdir('output'); os.symlink('/tmp', 'output'); open('/tmp/x', 'w').close()"
    assert box.run(code).artifacts == ()


def test_many_folders_do_not_hold_up_the_next_cell(warm: None) -> None:
    with cloche.Sandbox(disk="100M") as box:
        box.run("import os\nfor n in range(20_000): os.mkdir(f'output/{n}')")
        assert box.run("1").duration < 1


# --- tools


def test_tools_are_called_and_recorded(warm: None) -> None:
    with cloche.Sandbox(tools={"add": lambda a, b=1: a + b}) as box:
        result = box.run("import cloche; cloche.tools.add(2, b=3)")
        assert result.text == "5"
        (call,) = result.tool_calls
        assert (call.name, call.args, call.kwargs, call.value, call.error) == ("add", [2], {"b": 3}, 5, None)
        assert box.run("1").tool_calls == ()


def test_a_tool_that_fails_is_an_exception_inside(warm: None) -> None:
    def fail() -> None:
        raise LookupError("nothing found")

    with cloche.Sandbox(tools={"fail": fail}) as box:
        result = box.run("cloche.tools.fail()")
        assert "nothing found" in result.error.message
        assert "LookupError" in (result.tool_calls[0].error or "")
        assert box.run("cloche.tools.missing()").error.name == "AttributeError"


def test_a_cell_cannot_call_tools_for_ever(warm: None) -> None:
    with cloche.Sandbox(tools={"f": lambda: 1}) as box:
        result = box.run("for n in range(1001): cloche.tools.f()")
        assert "at most 1000 calls" in result.error.message
        assert len(result.tool_calls) == 1000
        assert box.run("cloche.tools.f()").text == "1"


async def test_many_calls_at_once_are_all_answered(warm: None) -> None:
    async def slow(n: int) -> int:
        import asyncio

        await asyncio.sleep(0.2)
        return n

    async with cloche.AsyncSandbox(tools={"slow": slow}) as box:
        code = (
            "import asyncio\ntold = await asyncio.gather(*(cloche.tools.aio.slow(n) for n in range(400)), "
            "return_exceptions=True)\nsum(type(each) is int for each in told), len(told)"
        )
        result = await box.run(code, timeout=10)
        assert result.text == "(400, 400)"


def test_a_tool_may_use_the_sandbox_that_calls_it(warm: None) -> None:
    box = cloche.Sandbox(tools={"look": lambda: box.files.read_text("note")})
    with box:
        box.files.write("note", "seen")
        assert box.run("cloche.tools.look()").text == "'seen'"


def test_a_tool_may_take_its_time_and_be_interrupted(warm: None) -> None:
    going = threading.Event()
    with cloche.Sandbox(tools={"wait": lambda: going.wait(1.0)}) as box:
        box.run("x = 1")
        result = box.run("cloche.tools.wait()", timeout=0.3)
        assert result.error is None or result.error.kind == "timeout"
        assert box.run("x").text == "1"
