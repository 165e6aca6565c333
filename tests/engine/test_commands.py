"""`box.commands`: run to the end, or start and hold: events, input, signals, terminals."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import cloche
from cloche.model.events import Exit, Output, Started


def heard(process: cloche.Process, wanted: bytes) -> bytes:
    """Listen until this has been said; all that has been said."""
    said = b""
    while wanted not in said:
        event = process.next_event()
        assert event is not None, said
        assert not isinstance(event, Exit), (said, event)
        if isinstance(event, Output):
            said += event.data
    return said


# --- run


def test_a_shell_line_is_run_by_the_shell(box: cloche.Sandbox) -> None:
    result = box.commands.run("echo one | tr a-z A-Z; echo two >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("ONE\n", "two\n", 3)
    assert result.error is not None
    assert result.error.kind == "exit"


def test_a_list_is_run_as_it_is(box: cloche.Sandbox) -> None:
    assert box.commands.run(["echo", "$HOME", "a  b", "*"]).stdout == "$HOME a  b *\n"


def test_a_tuple_does_as_well(box: cloche.Sandbox) -> None:
    assert box.commands.run(("echo", "x")).stdout == "x\n"


@pytest.mark.parametrize(
    ("cwd", "said"),
    [
        (None, "/sandbox"),
        ("/tmp", "/tmp"),
        ("data", "/sandbox/data"),
        ("./output/", "/sandbox/output"),
        ("~", "/sandbox"),
        ("~/data", "/sandbox/data"),
        ("/home/user", "/home/user"),
        ("..", "/"),
    ],
)
def test_the_working_directory_is_chosen(box: cloche.Sandbox, cwd: str | None, said: str) -> None:
    assert box.commands.run(["/bin/pwd"], cwd=cwd).stdout == f"{said}\n"
    assert box.run_program("import os; print(os.getcwd())", cwd=cwd).stdout == f"{said}\n"


def test_a_missing_working_directory_is_told(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.FileMissing, match="/sandbox/nowhere"):
        box.commands.run("true", cwd="nowhere")


def test_variables_of_the_sandbox_and_of_the_command_add_up(jail: None) -> None:
    with cloche.Sandbox(env={"A": "box", "B": "box"}) as box:
        assert box.commands.run("echo $A $B $HOME", env={"B": "command"}).stdout == "box command /sandbox\n"
        assert box.run_program("import os; print(os.environ['A'])").stdout == "box\n"


def test_input_is_given_and_ended(box: cloche.Sandbox) -> None:
    assert box.commands.run("cat", stdin="a\nb").stdout == "a\nb"
    assert box.commands.run("cat", stdin=b"\xff").stdout_bytes == b"\xff"
    assert box.commands.run("cat").stdout == ""


def test_a_command_has_the_sandboxs_time_or_its_own(jail: None) -> None:
    with cloche.Sandbox(timeout=1) as box:
        begin = time.monotonic()
        result = box.commands.run("echo begun; sleep 30")
        assert time.monotonic() - begin < 15
        assert (result.exit_code, result.stdout) == (124, "begun\n")
        assert result.error is not None
        assert result.error.kind == "timeout"
        assert box.commands.run("sleep 1.2; echo slept", timeout=30).stdout == "slept\n"


def test_a_timeout_ends_the_command_and_its_children_but_not_the_sandbox(box: cloche.Sandbox) -> None:
    box.files.write("kept", "x")
    result = box.commands.run("setsid sleep 77 & (sleep 77 &) ; sleep 77", timeout=0.3)
    assert result.exit_code == 124
    assert box.files.read("kept") == b"x"
    assert "sleep" not in box.commands.run("cat /proc/*/comm").stdout


def test_output_past_the_limit_ends_the_command_but_not_the_sandbox(jail: None) -> None:
    with cloche.Sandbox(output="100K") as box:
        result = box.commands.run("yes")
        assert (result.truncated, len(result.stdout)) == (True, 100 << 10)
        assert result.error is not None
        assert result.error.kind == "output"
        assert box.commands.run("echo alive").stdout == "alive\n"


def test_memory_past_the_limit_ends_the_program_and_not_the_sandbox(jail: None) -> None:
    with cloche.Sandbox(memory="100M") as box:
        box.files.write("kept.txt", "still here")
        for _ in range(2):
            result = box.run_program("x = bytearray(300 << 20)")
            assert result.error is not None
            assert result.error.kind == "memory"
        assert box.commands.run("cat kept.txt").stdout == "still here"


def test_programs_that_run_at_once_do_not_overwrite_each_other(box: cloche.Sandbox) -> None:
    first = box.start_program("import sys; print('first', sys.argv[0]); input(); 1/0  # in the first")
    heard(first, b"first /sandbox/code/main.py\n")
    second = box.run_program("import sys; print('second', sys.argv[0]); 1/0  # in the second")
    assert second.stdout == "second /sandbox/code/main_2.py\n"
    first.write("\n")
    assert "# in the first" in first.wait().stderr
    assert box.run_program("import sys; print(sys.argv[0])").stdout == "/sandbox/code/main.py\n"


def test_a_missing_program_is_told(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.FileMissing, match="no-such-program"):
        box.commands.run(["no-such-program"])
    with pytest.raises(cloche.FileProblem, match="executable"):
        box.commands.run(["/etc/passwd"])
    assert box.commands.run("no-such-program").exit_code == 127


def test_state_is_kept_between_commands(box: cloche.Sandbox) -> None:
    box.commands.run("echo x > file")
    assert box.run_program("print(open('file').read())").stdout == "x\n\n"


BAD_COMMANDS: list[Any] = [5, None, b"ls", [], [""], ["a\0"], "a\0", [1], ["a", None], {"a": 1}, ["\ud800"], "\ud800"]


@pytest.mark.parametrize("command", BAD_COMMANDS, ids=range(len(BAD_COMMANDS)))
def test_what_is_no_command_is_refused(box: cloche.Sandbox, command: Any) -> None:
    with pytest.raises(cloche.InvalidRun, match="command"):
        box.commands.run(command)
    with pytest.raises(cloche.InvalidRun, match="command"):
        box.commands.start(command)


@pytest.mark.parametrize(
    "options",
    [
        {"cwd": 5},
        {"cwd": "a\0"},
        {"cwd": ""},
        {"env": {"A": 5}},
        {"stdin": 5},
        {"timeout": 0},
        {"timeout": "1"},
    ],
    ids=str,
)
def test_bad_options_are_refused(box: cloche.Sandbox, options: dict[str, Any]) -> None:
    with pytest.raises(cloche.InvalidRun):
        box.commands.run("true", **options)
    with pytest.raises(cloche.InvalidRun):
        box.run_program("", **options)
    assert box.commands.run("echo alive").stdout == "alive\n"


@pytest.mark.parametrize("size", [(0, 5), (80,), 5, (80, "24"), (80, 24, 1), (1 << 20, 24), None, (True, 5), (-1, 1)])
def test_an_impossible_terminal_is_refused(box: cloche.Sandbox, size: Any) -> None:
    with pytest.raises(cloche.InvalidRun, match="terminal"):
        box.commands.start("true", pty=True, size=size)


# --- start


def test_events_come_in_order_and_end_with_the_result(box: cloche.Sandbox) -> None:
    process = box.commands.start("echo out; read line; echo $line >&2; exit 4")
    assert process.pid > 1
    events = [process.next_event(), process.next_event()]
    process.write("typed\n")
    events += list(process)
    assert [event.kind for event in events if event] == ["started", "stdout", "stderr", "exit"]
    assert events[0] == Started(process.pid)
    assert events[1] == Output("stdout", b"out\n")
    assert isinstance(events[1], Output)
    assert events[1].text == "out\n"
    assert isinstance(events[3], Exit)
    assert events[3].result.exit_code == 4
    assert events[3].result == process.result == process.wait()
    assert (process.wait().stdout, process.wait().stderr) == ("out\n", "typed\n")
    assert process.next_event() is None


def test_a_pid_is_the_one_inside(box: cloche.Sandbox) -> None:
    process = box.commands.start("echo $$")
    assert process.wait().stdout == f"{process.pid}\n"


def test_two_processes_run_side_by_side(box: cloche.Sandbox) -> None:
    one, two = box.commands.start("cat"), box.commands.start("cat")
    two.write("two")
    one.write("one")
    assert heard(one, b"one") == b"one"
    assert heard(two, b"two") == b"two"
    for process in (one, two):
        process.close_stdin()
        assert process.wait().exit_code == 0


def test_a_started_command_has_no_time_limit_unless_told(jail: None) -> None:
    with cloche.Sandbox(timeout=0.2) as box:
        assert box.commands.start("sleep 0.6; echo done").wait().stdout == "done\n"
        assert box.commands.start("sleep 30", timeout=0.2).wait().exit_code == 124


def test_a_command_without_input_sees_its_end_at_once(box: cloche.Sandbox) -> None:
    assert box.commands.start("cat; echo end", stdin=False).wait().stdout == "end\n"


@pytest.mark.parametrize(("sent", "code"), [("SIGTERM", 143), (15, 143), ("USR1", 138), (9, 137), ("int", 130)])
def test_a_signal_arrives(box: cloche.Sandbox, sent: int | str, code: int) -> None:
    process = box.commands.start(["sleep", "60"])
    process.signal(sent)
    assert process.wait().exit_code == code


def test_a_signal_can_be_handled(box: cloche.Sandbox) -> None:
    process = box.commands.start("trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    heard(process, b"ready")
    process.signal("SIGTERM")
    assert process.wait().exit_code == 5
    assert "caught" in process.wait().stdout


@pytest.mark.parametrize("sent", ["TERMINATE", 0, -1, 999, None, "", 1.5])
def test_an_unknown_signal_is_refused(box: cloche.Sandbox, sent: Any) -> None:
    process = box.commands.start("cat")
    with pytest.raises(cloche.InvalidRun, match="signal"):
        process.signal(sent)
    process.kill()
    process.wait()


def test_kill_ends_all_that_a_command_has_started(box: cloche.Sandbox) -> None:
    process = box.commands.start("setsid sleep 88 & (sleep 88 &); echo ready; sleep 88")
    heard(process, b"ready")
    process.kill()
    result = process.wait()
    assert result.exit_code == 137
    assert result.error is not None
    assert result.error.kind == "killed"
    assert "sleep" not in box.commands.run("cat /proc/*/comm").stdout


def test_kill_spares_the_neighbours(box: cloche.Sandbox) -> None:
    neighbour = box.commands.start("cat")
    process = box.commands.start("cat")
    process.kill()
    process.wait()
    neighbour.write("still here")
    assert heard(neighbour, b"still here")
    neighbour.kill()
    neighbour.wait()


def test_what_is_done_to_an_ended_process_does_nothing(box: cloche.Sandbox) -> None:
    process = box.commands.start("true")
    process.wait()
    process.kill()
    process.signal(15)
    process.write("x")
    process.close_stdin()
    process.resize(80, 24)
    assert process.wait().exit_code == 0


def test_a_missing_program_cannot_be_started(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.FileMissing, match="no-such-program"):
        box.commands.start(["no-such-program"])


def test_bad_input_for_a_process_is_refused(box: cloche.Sandbox) -> None:
    process = box.commands.start("cat")
    with pytest.raises(cloche.InvalidRun):
        process.write(5)  # type: ignore[arg-type]
    process.close_stdin()
    assert process.wait().exit_code == 0


def test_writing_to_a_process_that_does_not_read_waits_and_ends_with_it(box: cloche.Sandbox) -> None:
    process = box.commands.start("read line; echo $line; exit 0")
    process.write("first\n" + "x" * (20 << 20))
    assert process.wait().stdout == "first\n"


def test_a_process_that_closes_its_input_and_lives_on_takes_any_amount(box: cloche.Sandbox) -> None:
    process = box.commands.start("exec <&-; echo closed; sleep 60")
    heard(process, b"closed")
    process.write(bytes(20 << 20))
    process.kill()
    process.wait()


# --- from several threads


def test_a_process_is_waited_for_by_one_thread_and_heard_by_another(box: cloche.Sandbox) -> None:
    process = box.commands.start("for i in 1 2 3 4 5; do echo $i; done; read line; echo $line")
    results: list[cloche.Result] = []
    waiter = threading.Thread(target=lambda: results.append(process.wait()))
    waiter.start()
    said = heard(process, b"5\n")
    process.write("end\n")
    said += b"".join(event.data for event in process if isinstance(event, Output))
    waiter.join(20)
    assert said == b"1\n2\n3\n4\n5\nend\n"
    assert results[0].stdout == said.decode()


def test_a_process_is_killed_by_one_thread_while_another_listens(box: cloche.Sandbox) -> None:
    process = box.commands.start("echo ready; sleep 60")
    heard(process, b"ready")
    threading.Timer(0.05, process.kill).start()
    assert [event.kind for event in process] == ["exit"]


def test_events_can_be_had_after_the_wait(box: cloche.Sandbox) -> None:
    process = box.commands.start("echo a; echo b >&2; echo c")
    process.wait()
    events = list(process)
    assert [events[0].kind, events[-1].kind] == ["started", "exit"]
    assert b"".join(event.data for event in events if isinstance(event, Output) and event.kind == "stdout") == b"a\nc\n"


# --- terminals

# Typed into a shell: a program that says that it runs, and can be interrupted.
IN_FRONT = "python3 -c \"import time; print('re' + 'ady'); time.sleep(60)\"\n"


def test_a_terminal_is_one(box: cloche.Sandbox) -> None:
    code = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size())"
    process = box.commands.start(["python3", "-c", code], pty=True, size=(100, 30))
    result = process.wait()
    assert result.stdout == "True os.terminal_size(columns=100, lines=30)\r\n"
    assert result.stderr == ""


def test_a_terminal_is_resized_while_a_program_runs(box: cloche.Sandbox) -> None:
    code = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('ready', flush=True)\n"
        "signal.sigwait([signal.SIGWINCH])\nprint(os.get_terminal_size())"
    )
    process = box.commands.start(["python3", "-c", code], pty=True)
    heard(process, b"ready")
    process.resize((132, 43))
    assert "columns=132, lines=43" in process.wait().stdout


def test_a_shell_in_a_terminal_answers(box: cloche.Sandbox) -> None:
    process = box.commands.start(["bash", "--norc", "-i"], pty=True, env={"PS1": "> "})
    heard(process, b"> ")
    process.write("echo $((6*7)); tput colors; echo $TERM\n")
    said = heard(process, b"xterm-256color\r\n")
    assert b"42\r\n256\r\n" in said
    process.write("exit 3\n")
    assert process.wait().exit_code == 3


def test_control_c_interrupts_what_runs_in_the_terminal_not_the_shell(box: cloche.Sandbox) -> None:
    process = box.commands.start(["bash", "--norc", "-i"], pty=True, env={"PS1": "> "})
    heard(process, b"> ")
    process.write(IN_FRONT)
    heard(process, b"ready\r\n")
    process.write(b"\x03")
    heard(process, b"> ")
    process.write("echo st''ill $?\n")
    assert heard(process, b"still 130\r\n")
    process.write("exit 6\n")
    assert process.wait().exit_code == 6


def test_a_signal_to_a_terminal_goes_to_what_runs_in_front(box: cloche.Sandbox) -> None:
    process = box.commands.start(["bash", "--norc", "-i"], pty=True, env={"PS1": "> "})
    heard(process, b"> ")
    process.write(IN_FRONT)
    heard(process, b"ready\r\n")
    process.signal("SIGINT")
    heard(process, b"> ")
    process.write("echo st''ill\nexit 7\n")
    heard(process, b"still")
    assert process.wait().exit_code == 7


def test_a_terminal_that_is_killed_at_once_is_killed(box: cloche.Sandbox) -> None:
    for _ in range(20):  # of those that were not there yet when the signal came, one in eight lived on
        process = box.commands.start(["sleep", "60"], pty=True, timeout=20)
        process.signal("SIGKILL")
        assert process.wait().exit_code == 137


def test_who_writes_to_nobody_in_a_terminal_is_ended_quietly(box: cloche.Sandbox) -> None:
    assert box.commands.start("yes | head -1", pty=True).wait().stdout == "y\r\n"


def test_colours_pass_through_a_terminal(box: cloche.Sandbox) -> None:
    box.files.write("file", "")
    box.files.mkdir("folder")
    assert "\x1b[" in box.commands.start("ls --color=auto", pty=True).wait().stdout
    assert "\x1b[" not in box.commands.run("ls --color=auto").stdout


def test_the_end_of_input_reaches_a_terminal(box: cloche.Sandbox) -> None:
    process = box.commands.start("cat", pty=True)
    process.write("typed\n")
    heard(process, b"typed\r\ntyped\r\n")
    process.write("half a line")
    process.close_stdin()
    result = process.wait()
    assert (result.exit_code, result.stdout.count("half a line")) == (0, 2)


# --- asyncio


async def test_the_same_with_await(async_box: cloche.AsyncSandbox) -> None:
    assert (await async_box.commands.run("cat; exit 2", stdin="x")).exit_code == 2
    process = await async_box.commands.start("cat")
    await process.write("hello")
    await process.close_stdin()
    kinds = [event.kind async for event in process]
    assert kinds == ["started", "stdout", "exit"]
    assert (await process.wait()).stdout == "hello"


@pytest.mark.embedded  # a server notices a moment later: tests/client/test_sandbox.py
async def test_a_cancelled_run_is_ended_in_the_sandbox(async_box: cloche.AsyncSandbox) -> None:
    import asyncio

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await async_box.commands.run("echo begun; sleep 66")
    left = await async_box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 66" not in left.stdout


async def test_an_impatient_task_does_not_lose_the_end_of_a_process(async_box: cloche.AsyncSandbox) -> None:
    """The result takes a moment to make: a task that is cancelled then must not take the end with it."""
    process = await async_box.commands.start("head -c 8000000 /dev/zero | tr '\\0' x")
    patience = 0.001
    async with asyncio.timeout(10):  # the command's own limit is 30 s
        while process.result is None:
            try:
                await asyncio.wait_for(process.next_event(), patience)
                patience = 0.001
            except TimeoutError:
                patience *= 1.1  # on a busy machine no event is ready within a millisecond
    assert (process.result.exit_code, len(process.result.stdout)) == (0, 8_000_000)


async def test_a_cancelled_write_does_not_disturb_what_follows(async_box: cloche.AsyncSandbox) -> None:
    import asyncio

    process = await async_box.commands.start("sleep 60")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await process.write(bytes(30 << 20))
    assert (await async_box.commands.run("echo alive")).stdout == "alive\n"
    await process.kill()
    await process.wait()


async def test_many_commands_at_once(async_box: cloche.AsyncSandbox) -> None:
    import asyncio

    results = await asyncio.gather(*(async_box.commands.run(f"echo {n}; head -c 100000 /dev/zero") for n in range(20)))
    assert [result.stdout.split("\n")[0] for result in results] == [str(n) for n in range(20)]
    assert all(len(result.stdout) > 100_000 for result in results)


# --- what another has met

FORKS = """
import os, time
children = []
try:
    while True:
        children.append(os.fork())
        if not children[-1]:
            time.sleep(60)
except OSError:
    print("refused")
for pid in children:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("how", ["program", "cell"])
def test_a_limit_that_another_has_met_and_survived_is_not_held_against_the_next(how: str) -> None:
    with cloche.Sandbox(processes=16) as box:
        met = box.run_program(FORKS) if how == "program" else box.run(FORKS)
        assert (met.stdout, met.error) == ("refused\n", None)
        error = box.commands.run("exit 3").error
        assert error is not None
        assert error.kind == "exit"
        killed = (
            "import subprocess; print(subprocess.run(['python3', '-c', 'x = bytearray(900 << 20)']).returncode != 0)"
        )
        met = box.run_program(killed) if how == "program" else box.run(killed)
        assert (met.stdout, met.error) == ("True\n", None)
        error = box.commands.run("exit 3").error
        assert error is not None
        assert error.kind == "exit"


def test_what_cannot_be_started_for_want_of_processes_is_told_so() -> None:
    with cloche.Sandbox(processes=16) as box:
        last = [box.commands.start(["sleep", "60"]) for _ in range(20)][-1]
        for result in (last.wait(), box.commands.run("true"), box.run_program("true", language="bash")):
            assert (result.stdout, result.exit_code) == ("", 127)
            assert result.error is not None
            assert result.error.kind == "processes"
            assert result.error.hint


def test_one_process_is_allowed_when_one_is() -> None:
    """Also to what is no Python: one of those waits in every sandbox of the pool, and counts until it is needed."""
    for _ in range(4):
        assert cloche.run("print(6 * 7)", processes=1).stdout == "42\n"
        time.sleep(0.2)  # nothing announces that the pool is full again
        assert cloche.run("echo $((6 * 7))", language="bash", processes=1).stdout == "42\n"


def test_what_cannot_be_started_for_want_of_space_is_told_so() -> None:
    with cloche.Sandbox(disk="4M") as box:
        box.commands.run("cat /dev/zero > full")
        result = box.run_program("print(1)")
        assert (result.stdout, result.exit_code) == ("", 127)
        assert result.error is not None
        assert result.error.kind == "disk"
        box.files.remove("full")
        assert box.run_program("print(1)").stdout == "1\n"


# --- usage


def test_usage_tells_what_is_used_now(box: cloche.Sandbox) -> None:
    before = box.usage()
    process = box.commands.start(["python3", "-c", "x = bytearray(50 << 20); print('ready', flush=True); input()"])
    heard(process, b"ready")
    box.files.write("big", bytes(5 << 20))
    during = box.usage()
    process.kill()
    process.wait()
    box.files.remove("big")
    after = box.usage()
    assert during.memory > before.memory + (40 << 20)
    assert during.memory_peak >= during.memory
    assert during.processes == before.processes + 1
    assert during.cpu_time > before.cpu_time
    assert during.disk >= before.disk + (5 << 20)
    assert after.processes == before.processes
    assert after.disk < during.disk
    assert after.cpu_time >= during.cpu_time


async def test_usage_with_await(async_box: cloche.AsyncSandbox) -> None:
    usage = await async_box.usage()
    assert usage.memory > 0
    assert usage.disk < 1 << 20
