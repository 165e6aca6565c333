"""Events as they happen, in order, and at no cost however much is printed."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import cloche
from cloche.model.events import Event, Exit, Output

# In a program: wait for a file that the test makes.
WAIT = "import os, time\nwhile not os.path.exists('/sandbox/go'): time.sleep(0.005)"


def memory() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_events_are_started_output_exit(box: cloche.Sandbox) -> None:
    code = "import sys\nprint('a')\nsys.stdout.flush()\nprint('b', file=sys.stderr)"
    events = list(box.stream_program(code))
    assert events[0].kind == "started"
    assert {(e.kind, e.data) for e in events[1:-1] if isinstance(e, Output)} == {("stdout", b"a\n"), ("stderr", b"b\n")}
    assert isinstance(events[-1], Exit)
    assert events[-1].result.stdout == "a\n"


def test_an_event_arrives_while_the_program_still_runs(box: cloche.Sandbox) -> None:
    # The program goes on only when the file appears, which is made when its first line has been heard.
    code = f"print('waiting')\n{WAIT}\nprint('went on')"
    said: list[bytes] = []
    for event in box.stream_program(code):
        if isinstance(event, Output):
            said.append(event.data)
            if said == [b"waiting\n"]:
                box.files.write("go", "")
    assert b"".join(said) == b"waiting\nwent on\n"


async def test_the_same_with_async_for(async_box: cloche.AsyncSandbox) -> None:
    code = f"print('waiting')\n{WAIT}\nraise SystemExit(3)"
    kinds = []
    async for event in async_box.stream_program(code):
        kinds.append(event.kind)
        if event.kind == "stdout":
            await async_box.files.write("go", "")
    assert kinds == ["started", "stdout", "exit"]


def test_every_argument_of_a_stream_works(box: cloche.Sandbox) -> None:
    box.files.mkdir("place")
    events = list(
        box.stream_program(
            'echo "$1 $A $(pwd)"; cat; exit 5',
            language="bash",
            args=["arg"],
            env={"A": "var"},
            cwd="place",
            stdin="input\n",
            timeout=20,
        )
    )
    result = result_of(events)
    assert (result.stdout, result.exit_code) == ("arg var /sandbox/place\ninput\n", 5)


def test_a_stream_ends_at_its_timeout(box: cloche.Sandbox) -> None:
    result = result_of(list(box.stream_program("print('x')\nwhile True: pass", timeout=0.3)))
    assert (result.stdout, result.exit_code) == ("x\n", 124)


def test_a_stream_of_a_failing_program_ends_with_its_error(box: cloche.Sandbox) -> None:
    result = result_of(list(box.stream_program("1/0")))
    assert result.error is not None
    assert result.error.name == "ZeroDivisionError"


@pytest.mark.parametrize(
    "options", [{"language": "x"}, {"args": 5}, {"stdin": 5}, {"cwd": 5}, {"timeout": -1}, {"env": 5}], ids=str
)
def test_bad_input_is_refused(box: cloche.Sandbox, options: dict[str, Any]) -> None:
    with pytest.raises(cloche.InvalidRun):
        list(box.stream_program("", **options))


def test_the_order_of_lines_is_kept(box: cloche.Sandbox) -> None:
    events = box.stream_program("for n in range(20_000): print(n)")
    text = b"".join(event.data for event in events if isinstance(event, Output))
    assert text == b"".join(b"%d\n" % n for n in range(20_000))


def test_output_is_cut_at_the_limit(jail: None) -> None:
    with cloche.Sandbox(output=10_000) as box:
        events = list(box.stream_program("while True: print('x' * 99)"))
        assert sum(len(event.data) for event in events if isinstance(event, Output)) == 10_000
        result = result_of(events)
        assert result.truncated
        assert len(result.stdout) == 10_000


def test_large_input_does_not_delay_the_first_event(box: cloche.Sandbox) -> None:
    # It prints first and reads only when it has been heard: all the input cannot be under way before.
    code = f"import sys\nprint('first')\n{WAIT}\nprint(len(sys.stdin.read()))"
    said = b""
    for event in box.stream_program(code, stdin="x" * (20 << 20)):
        if isinstance(event, Output):
            said += event.data
            box.files.write("go", "")
    assert said == b"first\n%d\n" % (20 << 20)


def test_a_program_that_prints_300_megabytes_costs_no_memory(jail: None) -> None:
    cloche.run("print(1)")
    before = memory()
    result = cloche.run("x = b'x' * (1 << 20)\nimport os\nfor _ in range(300): os.write(1, x)", output="1M")
    assert (result.truncated, len(result.stdout)) == (True, 1 << 20)
    assert memory() - before < 20 << 20


def test_300_megabytes_that_are_listened_to_cost_no_memory_either(jail: None) -> None:
    with cloche.Sandbox(output="1M") as box:
        box.commands.run("true")
        before, most, total = memory(), 0, 0
        process = box.commands.start("head -c 300000000 /dev/zero")
        for event in process:
            if isinstance(event, Output):
                total += len(event.data)
                most = max(most, memory())
        assert total == 300_000_000
        assert most - before < 20 << 20
        assert process.wait().truncated
        assert len(process.wait().stdout) == 1 << 20


@pytest.mark.embedded  # a server keeps what nobody reads, as much as it has room for
def test_a_reader_who_does_not_read_holds_the_program_up(box: cloche.Sandbox) -> None:
    process = box.commands.start("head -c 100000000 /dev/zero; touch /sandbox/done")
    before = memory()
    for _ in range(20):
        box.commands.run("true")  # reads what has come for others, too
    assert not box.files.exists("done")
    assert memory() - before < 10 << 20
    process.kill()
    assert process.wait().exit_code == 137


def test_a_process_that_says_little_often_does_no_harm_while_nobody_listens(box: cloche.Sandbox) -> None:
    code = "import os, sys\nfor n in range(30_000):\n    os.write(1, b'o'); os.write(2, b'e')\nopen('done', 'w')"
    process = box.commands.start(["python3", "-c", code])
    for n in range(6000):
        process.write("x")
        if n % 100 == 0:
            box.files.exists("done")  # reads what has come, also for others
    result = process.wait()
    assert (result.exit_code, result.stdout, result.stderr) == (0, "o" * 30_000, "e" * 30_000)


def test_waiting_for_a_talkative_process_keeps_no_more_than_the_limit(jail: None) -> None:
    with cloche.Sandbox(output="1M") as box:
        before = memory()
        process = box.commands.start("head -c 200000000 /dev/zero")
        result = process.wait()
        assert memory() - before < 20 << 20
        assert result.truncated
        assert len(result.stdout) == 1 << 20


async def test_a_stream_that_is_left_early_can_be_ended(async_box: cloche.AsyncSandbox) -> None:
    async for event in async_box.stream_program("print('x')\nimport time; time.sleep(60)"):
        if event.kind == "stdout":
            break
    assert (await async_box.commands.run("echo alive")).stdout == "alive\n"


async def test_many_streams_at_once_are_not_mixed_up(async_box: cloche.AsyncSandbox) -> None:
    async def listen(n: int) -> bytes:
        events = async_box.stream_program(f"for i in range(2000): print({n})")
        return b"".join([event.data async for event in events if isinstance(event, Output)])

    said = await asyncio.gather(*(listen(n) for n in range(8)))
    assert said == [b"%d\n" % n * 2000 for n in range(8)]


def result_of(events: list[Event]) -> cloche.Result:
    assert isinstance(events[-1], Exit)
    return events[-1].result
