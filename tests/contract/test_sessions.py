"""Behind every wall: sessions keep their state, can go back, stream, and are interrupted without losing it."""

from __future__ import annotations

import asyncio

import pytest

import cloche


def test_a_session_keeps_its_variables_and_can_go_back(box: cloche.Sandbox) -> None:
    box.run("x = 1")
    assert box.run("x += 1; x").text == "2"
    box.files.write("kept.txt", "before")
    checkpoint = box.checkpoint()
    box.run("x = 100; open('kept.txt', 'w').write('after')")
    box.restore(checkpoint)
    assert (box.run("x").text, box.files.read("kept.txt")) == ("2", b"before")
    assert box.branch().language == "python"


def test_an_error_in_a_cell_shows_the_callers_code_alone(box: cloche.Sandbox) -> None:
    failed = box.run("def f():\n    1 / 0\nf()")
    assert failed.error.name == "ZeroDivisionError"
    assert "cloche" not in str(failed.error.traceback)


@pytest.mark.parametrize(
    ("language", "code"), [("bash", "n=$((n+1)); echo $n"), ("javascript", "globalThis.n = (globalThis.n ?? 0) + 1")]
)
def test_other_languages_have_sessions_too(box: cloche.Sandbox, language: str, code: str) -> None:
    for count in ("1", "2"):
        result = box.run(code, language=language)
        assert (result.text or result.stdout).strip() == count


def test_a_cell_that_takes_too_long_is_interrupted_and_its_variables_stay(box: cloche.Sandbox) -> None:
    box.run("y = 5")
    assert box.run("while True: pass", timeout=0.5).error.kind == "timeout"
    assert box.run("y").text == "5"


def test_a_cell_can_be_interrupted(box: cloche.Sandbox) -> None:
    box.run("z = 6")
    events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(60)")
    for event in events:
        if getattr(event, "data", b"") or getattr(event, "text", ""):
            break
    box.interrupt()
    end = [event for event in events if event.kind == "end"]
    assert end[0].result.error.name == "KeyboardInterrupt"
    assert box.run("z").text == "6"


def test_tools_outside_are_called_from_inside(isolation: str) -> None:
    with cloche.Sandbox(isolation=isolation, tools={"double": lambda n: 2 * n}) as box:
        assert box.run("cloche.tools.double(21)").text == "42"
        assert box.run("1").wall == isolation


async def test_contexts_run_side_by_side_and_events_come_in_order(isolation: str) -> None:
    async with cloche.AsyncSandbox(isolation=isolation) as box:
        other = await box.contexts.create()
        meet = "import os, time\nopen({0!r}, 'w')\nwhile not os.path.exists({1!r}): time.sleep(0.01)\n{0!r}"
        both = await asyncio.gather(
            box.run(meet.format("a", "b")), box.run(meet.format("b", "a"), context=other)
        )  # each waits for the other
        assert [result.text for result in both] == ["'a'", "'b'"]
        kinds = [event.kind async for event in box.stream("print(1); 2")]
        assert kinds == ["started", "stdout", "result", "end"]
        much = await box.run("print('x' * 5_000_000)")
        assert len(much.stdout) == 5_000_001
