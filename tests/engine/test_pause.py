"""Sandboxes that are paused: nothing in them runs, and nothing of them is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest
from tests.waiting import eventually

import cloche

WAITING = "begin = time.process_time()\nwhile time.process_time() - begin < 0.3: pass\n'done'"


def test_nothing_runs_meanwhile_and_then_everything_does(box: cloche.Sandbox) -> None:
    process = box.commands.start("while true; do date +%s.%N; sleep 0.01; done > stamps")
    box.run("x = 1")
    eventually(lambda: box.files.exists("stamps") and box.files.read_text("stamps"))  # it has begun
    box.pause()
    time.sleep(1)  # nothing can be seen to happen
    box.resume()
    begin = time.time()
    while float(box.files.read_text("stamps").split()[-1]) < begin:
        assert time.time() < begin + 20
    stamps = [float(stamp) for stamp in box.files.read_text("stamps").split()]
    assert max(later - stamp for stamp, later in pairwise(stamps)) > 0.9
    assert box.run("x").text == "1"
    process.kill()


def test_code_stands_still_and_goes_on(box: cloche.Sandbox) -> None:
    box.run("import time")
    events = box.stream(WAITING, timeout=20)
    assert next(events).kind == "started"  # a sandbox that is paused takes no more
    thread = threading.Thread(target=lambda: list(events))
    thread.start()
    box.pause()
    thread.join(1)
    assert thread.is_alive()
    box.resume()
    thread.join(20)
    assert events.result is not None
    assert events.result.text == "'done'"


def test_time_that_is_up_meanwhile_does_not_end_the_sandbox(box: cloche.Sandbox) -> None:
    box.run("import time")
    events = box.stream("time.sleep(60)", timeout=0.5)
    assert next(events).kind == "started"
    thread = threading.Thread(target=lambda: list(events))
    thread.start()
    box.pause()
    thread.join(3)
    assert thread.is_alive()
    box.resume()
    thread.join(20)
    assert events.result is not None
    assert events.result.error is not None
    assert events.result.error.kind == "timeout"
    assert box.run("6 * 7").text == "42"


def test_one_that_is_paused_can_be_ended_and_has_ended_then(box: cloche.Sandbox) -> None:
    box.run("x = 1")
    box.pause()
    box.close()
    with pytest.raises(cloche.Gone):
        box.pause()


@pytest.mark.embedded  # cancels a task of the engine
async def test_a_pause_whose_caller_is_cancelled_can_be_resumed(async_box: cloche.AsyncSandbox) -> None:
    await async_box.run("x = 1")
    try:
        await async_box.pause()
    except cloche.Refused:
        pytest.skip("sandboxes cannot be paused here")
    await async_box.resume()
    pausing = asyncio.create_task(async_box.pause())
    await asyncio.sleep(0)  # it has begun
    pausing.cancel()
    async with asyncio.timeout(20):
        while not async_box.paused:  # nothing announces it
            await asyncio.sleep(0.01)
    await async_box.resume()
    assert (await asyncio.wait_for(async_box.run("x"), 20)).text == "1"


@pytest.mark.embedded  # cancels a task of the engine
async def test_a_sandbox_that_goes_on_after_a_cancelled_resume_is_not_paused(async_box: cloche.AsyncSandbox) -> None:
    await async_box.run("x = 1")
    try:
        await async_box.pause()
    except cloche.Refused:
        pytest.skip("sandboxes cannot be paused here")
    resuming = asyncio.create_task(async_box.resume())
    while not resuming.done():
        await asyncio.sleep(0)
        resuming.cancel()
    assert (await asyncio.wait_for(async_box.run("x"), 20)).text == "1"  # it goes on
    async with asyncio.timeout(20):
        while async_box.paused:  # nothing announces it
            await asyncio.sleep(0.01)
