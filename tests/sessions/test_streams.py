"""`box.stream`: events in the order in which they happen; and what becomes of a cell that nobody listens to."""

# ruff: noqa: E501  (code is easier to compare when each piece is one line)

from __future__ import annotations

import asyncio
import itertools
import os
import re
import secrets
import threading
import time
from pathlib import Path

import pytest
from tests.places import THERE
from tests.waiting import eventually, processes_called

import cloche
from cloche.model.events import End, Failed, Output
from cloche.sandbox.contexts import AsyncContext
from cloche.service.run import MAX_LOG

# The name of the process, which the host sees without asking the sandbox, tells whether the code runs.
NAMED = "import ctypes\ncall = ctypes.CDLL(None).prctl\ncall(15, {name!r}.encode())"  # PR_SET_NAME
ENDLESS = (
    f"import time\n{NAMED}\ntry:\n    print('begun')\n    while True: time.sleep(0.01)\nfinally: call(15, b'idle')"
)
UNTIL_SEEN = "import os, time\nwhile not os.path.exists('/sandbox/seen'): time.sleep(0.01)\nos.remove('/sandbox/seen')"
STUBBORN = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{ENDLESS}"


def seen(events: object) -> list[tuple[str, str | None]]:
    """Each event's kind and what it shows; output that came in pieces is one."""
    pieces = []
    for event in events:  # type: ignore[attr-defined]
        if event.kind in ("stdout", "stderr"):
            pieces.append((event.kind, event.text))
        elif event.kind == "result":
            pieces.append((event.kind, event.result.text))
        else:
            pieces.append((event.kind, None))
    joined: list[tuple[str, str | None]] = []
    for kind, group in itertools.groupby(pieces, lambda piece: piece[0]):
        texts = [text for _, text in group]
        joined += (
            [(kind, "".join(text or "" for text in texts))]
            if kind in ("stdout", "stderr")
            else [(kind, text) for text in texts]
        )
    return joined


@pytest.fixture
def name() -> str:
    """A name that no other process has."""
    return f"tick-{secrets.token_hex(4)}"


def test_output_and_displays_keep_their_order(shared: cloche.Sandbox) -> None:
    code = "import sys\nprint('one')\ndisplay('shown')\nprint('two')\nprint('three', file=sys.stderr)\ndisplay('again')\nprint('four')\n'last'"
    assert seen(shared.stream(code)) == [
        ("started", None),
        ("stdout", "one\n"),
        ("result", "'shown'"),
        ("stdout", "two\n"),
        ("stderr", "three\n"),
        ("result", "'again'"),
        ("stdout", "four\n"),
        ("result", "'last'"),
        ("end", None),
    ]


@pytest.mark.parametrize("how", ["os.system('echo written')", "os.write(1, b'written\\n')", "!echo written"])
def test_what_others_write_comes_before_what_is_shown_after_it(shared: cloche.Sandbox, how: str) -> None:
    assert seen(shared.stream(f"import os\n{how}\ndisplay('shown')\nprint('printed')")) == [
        ("started", None),
        ("stdout", "written\n"),
        ("result", "'shown'"),
        ("stdout", "printed\n"),
        ("end", None),
    ]


def test_an_error_is_told_before_the_end(shared: cloche.Sandbox) -> None:
    *_, failed, end = shared.stream("print(1)\n1 / 0")
    assert isinstance(failed, Failed)
    assert isinstance(end, End)
    assert failed.error.name == "ZeroDivisionError"
    assert end.result.error == failed.error


def test_events_come_while_the_code_runs(shared: cloche.Sandbox) -> None:
    events = shared.stream(f"print('now')\n{UNTIL_SEEN}")
    next(event for event in events if event.kind == "stdout")
    shared.files.write("seen", b"")
    *_, end = events
    assert isinstance(end, End)
    assert end.result.ok, end.result


def test_output_without_an_end_of_line_comes_when_it_is_flushed(shared: cloche.Sandbox) -> None:
    events = shared.stream(f"print('half', end='', flush=True)\n{UNTIL_SEEN}")
    assert next(event.text for event in events if isinstance(event, Output)) == "half"
    shared.files.write("seen", b"")
    *_, end = events
    assert isinstance(end, End)
    assert end.result.ok, end.result


def test_the_end_carries_what_run_would_have_returned(shared: cloche.Sandbox) -> None:
    *_, end = shared.stream("print('a'); 5", env={"A": "1"}, stdin="")
    assert isinstance(end, End)
    assert (end.result.text, end.result.stdout, end.result.ok) == ("5", "a\n", True)


def test_an_iterator_at_its_end_stays_there(shared: cloche.Sandbox) -> None:
    events = shared.stream("1")
    list(events)
    assert list(events) == []


def test_a_cell_whose_stream_is_never_begun_never_runs(shared: cloche.Sandbox) -> None:
    shared.stream("never = 1")
    assert shared.run("'never' in globals()").text == "False"


def test_code_whose_stream_is_left_is_stopped_and_its_variables_stay(box: cloche.Sandbox, name: str) -> None:
    box.run("x = 1")
    for event in box.stream(ENDLESS.format(name=name)):
        if event.kind == "stdout":
            assert processes_called(name)
            break
    assert box.run("x").text == "1"
    assert not processes_called(name)


def test_code_that_does_not_yield_when_its_stream_is_left_loses_its_kernel_and_the_next_run_says_so(
    box: cloche.Sandbox, name: str
) -> None:
    other = box.contexts.create()
    other.run("y = 2")
    for event in box.stream(STUBBORN.format(name=name)):
        if event.kind == "stdout":
            break
    result = box.run("'x' in globals()")
    assert (result.text, result.restarted) == ("False", True)
    assert not box.run("1").restarted
    assert other.run("y").text == "2"
    assert not processes_called(name)


def test_code_that_does_not_yield_is_stopped_though_nobody_asks_for_anything_more(
    box: cloche.Sandbox, name: str
) -> None:
    for event in box.stream(STUBBORN.format(name=name)):
        if event.kind == "stdout":
            assert processes_called(name)
            break
    eventually(lambda: not processes_called(name))


def test_a_cell_is_stopped_in_time_though_nobody_takes_its_events(box: cloche.Sandbox, name: str) -> None:
    events = box.stream(ENDLESS.format(name=name), timeout=1)
    next(events)
    eventually(lambda: processes_called(name))
    eventually(lambda: not processes_called(name), 4)
    *_, end = events
    assert isinstance(end, End)
    assert end.result.error.kind == "timeout"


def test_a_slow_listener_is_not_taken_for_a_slow_cell(shared: cloche.Sandbox) -> None:
    events = shared.stream("print(1)", timeout=1)
    next(events)
    time.sleep(1.2)  # the listener's slowness: longer than the cell may take
    *_, end = events
    assert isinstance(end, End)
    assert (end.result.error, end.result.stdout) == (None, "1\n")


FLOOD = """
import os
written = 0
while True:
    os.write(1, b"x" * 99_999 + b"\\n"); written += 100_000
    with open("/sandbox/new", "w") as file: file.write(str(written))
    os.rename("/sandbox/new", "/sandbox/written")
"""


class Peak:
    """The most memory that processes have used since this was made, beyond what they used then."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._most()

    def grown(self) -> int:
        return self._most() - self._before

    def _most(self) -> int:
        found = [re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()) for pid in self._pids]
        return sum(int(each[1]) << 10 for each in found if each is not None)


@pytest.mark.parametrize(
    "is_kept",
    [pytest.param(False, id="read by nobody"), pytest.param(True, id="kept", marks=pytest.mark.embedded)],
)
def test_a_flood_that_nobody_reads_costs_no_memory_and_can_be_left(
    warm: None, place: str, request: pytest.FixtureRequest, is_kept: bool
) -> None:
    is_there = place == THERE
    engine = [request.getfixturevalue("served").process.pid] if is_there else []
    most = MAX_LOG * 3 // 2 if is_there else 16 << 20  # a server keeps a run's events, up to a limit
    kept, size = [], 0
    with cloche.Sandbox(output="1G") as box:
        box.run("1")
        peak = Peak(os.getpid(), *engine)
        events = box.stream(FLOOD)
        next(events)
        while is_kept and size < 4 * most:  # shows that the measurement sees what output costs
            event = next(events)
            kept.append(event)
            size += len(event.data) if isinstance(event, Output) else 0

        def is_held_up() -> bool:
            before = box.files.read_text("written") if box.files.exists("written") else ""
            time.sleep(0.2)
            return before != "" and before == box.files.read_text("written")

        eventually(is_held_up, 20)
        assert (peak.grown() > most) if is_kept else (peak.grown() < most)
        del events
        assert box.run("1").text == "1"


def test_more_than_the_result_keeps_can_be_streamed(warm: None) -> None:
    with cloche.Sandbox(output="50M") as box:
        events = box.stream("for _ in range(20): print('x' * 999_999)")
        total, end = 0, None
        for event in events:
            total += len(event.data) if isinstance(event, Output) else 0
            end = event
        assert total == 20_000_000
        assert isinstance(end, End)
        assert end.result.ok
        assert end.result.truncated
        assert 0 < len(end.result.stdout) < total


async def test_asynchronous_events_are_the_same(async_box: cloche.AsyncSandbox) -> None:
    kinds = [event.kind async for event in async_box.stream("print(1)\ndisplay(2)\n3")]
    assert kinds == ["started", "stdout", "result", "result", "end"]


async def test_an_asynchronous_stream_can_be_left(async_box: cloche.AsyncSandbox) -> None:
    await async_box.run("x = 1")
    async for event in async_box.stream("import time\nprint(1)\ntime.sleep(60)"):
        if event.kind == "stdout":
            break
    result = await async_box.run("x")
    assert (result.text, result.restarted) == ("1", False)
    assert result.duration < 1


@pytest.mark.parametrize("delay", [0, 0.02, 0.3])
@pytest.mark.parametrize(
    "code", ["import time; time.sleep(60)", "import time\nwhile True: print('x' * 100); time.sleep(1e-4)"]
)
async def test_a_task_can_be_cancelled_and_the_context_goes_on(
    async_box: cloche.AsyncSandbox, code: str, delay: float
) -> None:
    await async_box.run("x = 1")
    task = asyncio.create_task(async_box.run(code))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await async_box.run("x")
    assert (result.text, result.restarted) == ("1", False)


async def test_an_impatient_task_does_not_lose_the_end_of_a_cell(async_box: cloche.AsyncSandbox) -> None:
    """The last event takes a moment to make: a task that is cancelled then must not take the end with it."""
    events = async_box.stream("import os; _ = os.write(1, b'\\xff' * 900_000); 7")  # slow to decode
    async with asyncio.timeout(10):  # the cell's own limit is 30 s
        while True:
            try:
                await asyncio.wait_for(anext(events), 0.001)
            except TimeoutError:
                continue
            except StopAsyncIteration:
                break
    assert events.result is not None
    assert events.result.text == "7"


async def test_a_run_can_be_given_a_time_by_asyncio(async_box: cloche.AsyncSandbox) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await async_box.run("import time; time.sleep(60)")
    assert (await async_box.run("1")).text == "1"


async def test_two_streams_at_once_do_not_mix(async_box: cloche.AsyncSandbox) -> None:
    contexts = [await async_box.contexts.create() for _ in range(3)]

    async def texts(context: AsyncContext, word: str) -> str:
        code = f"for n in range(300): print('{word}', n)"
        return "".join(
            [event.text async for event in async_box.stream(code, context=context) if isinstance(event, Output)]
        )

    told = await asyncio.gather(*(texts(context, word) for context, word in zip(contexts, "abc", strict=True)))
    for text, word in zip(told, "abc", strict=True):
        assert text == "".join(f"{word} {n}\n" for n in range(300))


def test_threads_share_a_sandbox(box: cloche.Sandbox) -> None:
    contexts = [box.contexts.create() for _ in range(3)]
    told: dict[int, list[str | None]] = {}

    def work(number: int) -> None:
        told[number] = [contexts[number].run(f"x = {number} * {n}; x").text for n in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told == {number: [str(number * n) for n in range(20)] for number in range(3)}
