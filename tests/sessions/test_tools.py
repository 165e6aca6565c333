"""Tools: functions of the sandbox's owner, called by the code inside, and what hostile code makes of them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import cloche
from cloche.blocking.sandbox.contexts import Context
from cloche.wire import frames

pytestmark = pytest.mark.usefixtures("jail")

# Inside: find the control, and speak on it as the kernel does.
FORGE = f"""
import json, os, struct
def frame(payload, kind={frames.EVENT}, operation=None):
    for name in os.listdir('/proc/self/fd'):
        try:
            if os.readlink('/proc/self/fd/' + name).startswith('socket:'):
                break
        except OSError:
            continue
    number = channel().operation if operation is None else operation
    os.write(int(name), struct.pack('>IIB', len(payload), number, kind) + payload)
def channel():
    import gc
    return next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')
"""


def offering(**tools: Callable[..., Any]) -> cloche.Sandbox:
    return cloche.Sandbox(tools=tools, timeout=20)


# --- calls and answers


def test_a_tool_answers_and_the_call_is_recorded():
    with offering(add=lambda a, b=1: a + b) as box:
        result = box.run("cloche.tools.add(2, b=3)")
    assert result.text == "5"
    (call,) = result.tool_calls
    assert (call.name, call.args, call.kwargs, call.value, call.error) == ("add", [2], {"b": 3}, 5, None)
    assert 0 <= call.duration < 1


def test_tools_are_imported_like_modules_and_describe_themselves():
    with offering(add=lambda a: a, sub=lambda a: a) as box:
        result = box.run("from cloche.tools import add; import cloche.tools as t; add(1), t.sub(2), t.__all__")
        assert result.text == "(1, 2, ['add', 'sub'])"
        assert "add, sub" in box.run("print(t.__doc__)").stdout


VALUES = [None, True, 0, -1.5, "", "é\u2028\U0001f600", [], {}, [1, [2, {"a": None}]], {"k": [1]}]


@pytest.mark.parametrize("value", VALUES)
def test_json_values_go_there_and_back(value):
    seen: list[Any] = []
    with offering(echo=lambda v: seen.append(v) or v) as box:  # type: ignore[func-returns-value]
        result = box.run(f"cloche.tools.echo({value!r}) == {value!r}")
    assert (result.text, seen) == ("True", [value])


@pytest.mark.parametrize("value", ["object()", "{1, 2}", "b'bytes'", "print", "1j", "{(1, 2): 3}"])
def test_what_is_not_json_is_told_inside_and_nothing_is_called(value):
    calls: list[Any] = []
    with offering(echo=calls.append) as box:
        result = box.run(f"cloche.tools.echo({value})")
        assert result.error.name == "TypeError"
        assert "JSON" in result.error.message
        assert box.run("cloche.tools.echo(1)").ok
    assert calls == [1]


def test_a_circle_and_arguments_without_end_are_told_inside():
    with offering(echo=lambda v: v) as box:
        assert box.run("a = []; a.append(a); cloche.tools.echo(a)").error.name == "TypeError"
        large = box.run("cloche.tools.echo('x' * 2_000_000)")
        assert (large.error.name, "at most" in large.error.message) == ("ValueError", True)
        assert box.run("cloche.tools.echo(2)").text == "2"


@pytest.mark.parametrize(
    "answer", [{1, 2}, object(), b"bytes", "x" * (2 << 20)], ids=["set", "object", "bytes", "large"]
)
def test_an_answer_that_cannot_be_sent_is_an_error_inside(answer):
    with offering(give=lambda: answer) as box:
        result = box.run("cloche.tools.give()")
        assert result.error.name == "ToolError"
        assert result.tool_calls[0].error
        assert box.run("1 + 1").text == "2"


def test_an_exception_of_the_owners_arrives_as_a_tool_error_and_is_recorded():
    def fail() -> None:
        raise ValueError("no such city")

    with offering(fail=fail) as box:
        result = box.run("""
            try:
                cloche.tools.fail()
            except cloche.ToolError as problem:
                print(problem)
        """)
    assert (result.stdout, result.error) == ("ValueError: no such city\n", None)
    assert result.tool_calls[0].error == "ValueError: no such city"
    assert result.tool_calls[0].value is None


def test_an_error_of_time_that_the_owner_raises_is_the_owners():
    def fail() -> None:
        raise TimeoutError("the weather service is slow")

    with offering(fail=fail) as box:
        assert "the weather service is slow" in box.run("cloche.tools.fail()").error.message


def test_arguments_that_do_not_fit_are_the_owners_type_error():
    with offering(one=lambda a: a) as box:
        assert "TypeError" in box.run("cloche.tools.one(1, 2)").error.message


def test_a_tool_that_was_not_offered_does_not_exist():
    with offering(add=lambda: 1) as box:
        result = box.run("cloche.tools.remove()")
    assert result.error.name == "AttributeError"
    assert "add" in result.error.message
    assert result.tool_calls == ()


def test_without_tools_there_is_no_module(box):
    assert box.run("import cloche").error.name == "ModuleNotFoundError"
    assert box.run("cloche").error.name == "NameError"


@pytest.mark.parametrize(
    "tools", [{"": print}, {"a b": print}, {"_hidden": print}, {"aio": print}, {"x": 5}, {7: print}, [print]]
)
def test_tools_that_make_no_sense(tools):
    with pytest.raises(cloche.InvalidRun, match="tool"):
        cloche.Sandbox(tools=tools)


def test_new_contexts_branches_and_restored_sessions_have_the_tools():
    with offering(add=lambda a: a + 1) as box:
        box.run("x = 1")
        point = box.checkpoint()
        for context in (box.contexts.create(), box.branch(), box.branch(point)):
            assert context.run("cloche.tools.add(1)").text == "2"
        box.restore(point)
        assert box.run("cloche.tools.add(x)").text == "2"
        box.restart()
        assert box.run("cloche.tools.add(2)").text == "3"


# --- of both kinds, in both sandboxes


def test_an_asynchronous_function_answers_the_plain_sandbox():
    async def slow(a: int) -> int:
        await asyncio.sleep(0.01)
        return a * 2

    with offering(slow=slow) as box:
        assert box.run("cloche.tools.slow(4)").text == "8"
        assert box.run("await cloche.tools.aio.slow(4)").text == "8"


async def test_calls_at_once_run_at_once():
    async def slow(a: int) -> int:
        await asyncio.sleep(0.3)
        return a

    async with cloche.AsyncSandbox(tools={"slow": slow}) as box:
        begin = time.monotonic()
        result = await box.run(
            "import asyncio; sum(await asyncio.gather(*[cloche.tools.aio.slow(n) for n in range(400)]))"
        )
        assert result.text == str(sum(range(400)))
        assert time.monotonic() - begin < 30  # one after the other they would take 120
        assert len(result.tool_calls) == 400


async def test_a_blocking_function_does_not_block_the_loop():
    async with cloche.AsyncSandbox(tools={"nap": time.sleep}) as box:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert (await box.run("cloche.tools.nap(0.4)")).ok
        ticking.cancel()
        assert ticks > 10


def test_a_tool_is_called_from_a_thread_and_while_the_cell_calls_too():
    with offering(echo=lambda v: v) as box:
        result = box.run("""
            import threading
            got = []
            threads = [threading.Thread(target=lambda n=n: got.append(cloche.tools.echo(n))) for n in range(8)]
            [thread.start() for thread in threads]
            mine = [cloche.tools.echo(n) for n in range(8)]
            [thread.join() for thread in threads]
            sorted(got) == mine
        """)
    assert result.text == "True", result
    assert len(result.tool_calls) == 16


def test_a_thousand_calls_in_a_row():
    with offering(add=lambda a: a + 1) as box:
        box.run("cloche.tools.add(1)")
        result = box.run("x = 0\nfor _ in range(1000): x = cloche.tools.add(x)\nx")
        assert result.text == "1000"
        assert len(result.tool_calls) == 1000


# --- time


async def test_a_tool_that_takes_too_long_meets_the_time_limit_and_the_session_lives():
    async def forever() -> None:
        await asyncio.sleep(600)

    async with cloche.AsyncSandbox(tools={"forever": forever}) as box:
        await box.run("x = 1")
        result = await box.run("cloche.tools.forever()", timeout=0.3)
        assert result.error.kind == "timeout"
        assert not result.restarted
        result = await box.run("await cloche.tools.aio.forever()", timeout=0.3)
        assert result.error.kind == "timeout"
        assert not result.restarted
        assert (await box.run("x")).text == "1"


def test_a_slow_tool_of_the_plain_sandbox_ends_first_and_then_the_cell():
    with offering(nap=lambda: time.sleep(0.6)) as box:
        box.run("x = 1")
        result = box.run("while True: cloche.tools.nap()", timeout=0.3)
        assert result.error.kind == "timeout"
        assert box.run("x").text == "1"


def test_an_answer_that_comes_too_late_goes_to_nobody():
    limit_s, called = 0.5, []

    def nap(value: str) -> str:
        called.append(value)
        time.sleep(limit_s + 0.1)  # the cell has begun before: its time is up then
        return value

    with offering(nap=nap, echo=lambda v: v) as box:
        assert box.run("cloche.tools.nap('late')", timeout=limit_s).error.kind == "timeout"
        assert called == ["late"]
        assert box.run("cloche.tools.echo('mine')").text == "'mine'"


# --- tools that use the sandbox


def test_a_tool_may_use_the_files_and_other_contexts():
    def save(text: str) -> str:
        box.files.write("saved", text)
        return str(other.run("6 * 7").text)

    with offering(save=save) as box:
        other = box.contexts.create()
        assert box.run("cloche.tools.save('hello'), open('saved').read()").text == "('42', 'hello')"


@pytest.mark.parametrize("use", ["run", "checkpoint", "branch", "undo"])
def test_a_tool_that_wants_the_context_that_called_it_is_refused_and_does_not_hang(use):
    acts: dict[str, Callable[[], object]] = {
        "run": lambda: box.run("1"),
        "checkpoint": lambda: box.checkpoint(),
        "branch": lambda: box.branch(),
        "undo": lambda: box.undo(),
    }
    with cloche.Sandbox(tools={"act": lambda: str(acts[use]())}, timeout=20, undo=True) as box:
        result = box.run("cloche.tools.act()")
        assert "Refused: The context python runs the code" in result.error.message
        assert box.run("1 + 1").text == "2"


async def test_the_same_in_the_asynchronous_sandbox():
    async def again() -> str:
        return str((await box.run("1")).text)

    async with cloche.AsyncSandbox(tools={"again": again}) as box:
        assert "Refused" in (await box.run("cloche.tools.again()")).error.message


# --- hostile code


@pytest.mark.parametrize(
    "payload",
    [
        b"garbage",
        b"[]",
        b"\xff\xfe",
        json.dumps({"call": 1, "tool": "system", "args": ["id"], "kwargs": {}}).encode(),
        json.dumps({"call": {"a": 1}, "tool": "echo", "args": 5, "kwargs": None}).encode(),
        json.dumps({"call": 1, "tool": ["echo"], "args": [], "kwargs": {}}).encode(),
        json.dumps({"tool": "__class__", "args": [], "kwargs": {}}).encode(),
        b'{"call":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"call":1e999,"tool":"echo","args":[NaN],"kwargs":{}}',
    ],
    ids=["garbage", "list", "bytes", "unknown", "types", "name", "attribute", "deep", "numbers"],
)
def test_forged_calls_reach_no_function_and_harm_nobody(payload):
    calls: list[Any] = []
    with offering(echo=lambda *args: calls.append(args)) as box:
        other = box.contexts.create()
        other.run("v = 1")
        box.run(FORGE)
        box.run(f"frame({payload!r} if len({payload!r}) < 999 else {payload!r})")
        assert other.run("v").text == "1"
        assert box.run("1 + 1").text == "2"
    assert all(len(args) <= 1 for args in calls)
    assert "system" not in str(calls)


def test_a_forged_call_of_a_tool_that_is_offered_is_a_call_like_any_other():
    calls: list[Any] = []
    with offering(echo=calls.append) as box:
        box.run(FORGE)
        forged = {"call": 77, "tool": "echo", "args": ["forged"], "kwargs": {}}
        result = box.run(
            f"frame({json.dumps(forged).encode()!r}); import time; time.sleep(0.2); cloche.tools.echo('real')"
        )
        assert [call.args for call in result.tool_calls] == [["forged"], ["real"]]
        assert box.run("cloche.tools.echo('next')").ok


@pytest.mark.embedded  # over HTTP, the engine is another process
def test_calls_without_end_do_not_fill_the_engine():
    def used() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    with offering(echo=lambda v: v) as box:
        box.run("s = 'x' * 800_000; cloche.tools.echo(s)")
        before = used()
        result = box.run("for _ in range(80): cloche.tools.echo(s)")
        assert used() - before < 40 << 20
        assert len(result.tool_calls) == 80


def test_more_calls_than_a_cell_may_make_are_refused_inside():
    with offering(echo=lambda v: v) as box:
        result = box.run("for n in range(2000): cloche.tools.echo(n)")
        assert result.error.name == "ToolError"
        assert "at most 1000" in result.error.message
        assert box.run("cloche.tools.echo(1)").text == "1"


def test_the_owners_exit_is_the_owners():
    def leave() -> None:
        raise KeyboardInterrupt

    with offering(leave=leave, echo=lambda v: v) as box:
        with pytest.raises(KeyboardInterrupt):
            box.run("cloche.tools.leave()")
        assert box.run("cloche.tools.echo(1)").text == "1"


def test_tools_serve_several_threads_of_the_owner():
    with offering(echo=lambda v: v) as box:
        contexts = [box.contexts.create() for _ in range(3)]
        texts: list[str | None] = []

        def use(context: Context, number: int) -> None:
            texts.append(context.run(f"sum(cloche.tools.echo({number}) for _ in range(50))").text)

        threads = [threading.Thread(target=use, args=(c, n)) for n, c in enumerate(contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(str(text) for text in texts) == ["0", "100", "50"]
