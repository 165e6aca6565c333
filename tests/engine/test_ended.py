"""`box.ended()`: whoever wants to know learns at once that a sandbox has ended, and why."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import cloche


def agent_of(process: str) -> int:
    """On this host, the pid of the first process of the sandbox in which a command runs, known by its arguments."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if process.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    raise AssertionError(f"no process has the argument {process}")


async def test_the_end_of_its_lifetime_is_told_at_once(jail: None) -> None:
    async with cloche.AsyncSandbox(lifetime=0.5) as box:
        assert await asyncio.wait_for(box.ended(), 10) == "timeout"
        assert await box.ended() == "timeout"
    assert await box.ended() == "timeout"


async def test_a_sandbox_that_is_killed_is_lost(async_box: cloche.AsyncSandbox) -> None:
    waiting = asyncio.create_task(async_box.ended())
    await async_box.commands.start(["sleep", "86399.25"])
    assert not waiting.done()
    os.kill(agent_of("86399.25"), signal.SIGKILL)
    assert await asyncio.wait_for(waiting, 10) == "lost"


async def test_closing_it_is_told_to_all_who_wait(jail: None) -> None:
    box = cloche.AsyncSandbox()
    await box.open()
    waiting = [asyncio.create_task(box.ended()) for _ in range(5)]
    await asyncio.sleep(0)
    await box.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == ["closed"] * 5
    assert await box.ended() == "closed"


async def test_one_that_was_never_opened_is_closed(jail: None) -> None:
    box = cloche.AsyncSandbox()
    await box.close()
    assert await box.ended() == "closed"


async def test_all_else_goes_on_meanwhile(async_box: cloche.AsyncSandbox) -> None:
    waiting = [asyncio.create_task(async_box.ended()) for _ in range(3)]
    for _ in range(20):
        await async_box.usage()
    await async_box.set_lifetime(100)
    assert (await async_box.run("1 + 1")).text == "2"
    assert (await async_box.run_program("exit(3)")).exit_code == 3
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    await async_box.set_lifetime(0.1)
    assert await asyncio.wait_for(asyncio.gather(*waiting[1:]), 10) == ["timeout"] * 2


async def test_a_run_under_way_tells_it_as_before(async_box: cloche.AsyncSandbox) -> None:
    waiting = asyncio.create_task(async_box.ended())
    await async_box.set_lifetime(0.3)
    result = await async_box.run_program("while True: pass", timeout=20)
    assert result.error is not None
    assert result.error.kind == "timeout"
    assert await asyncio.wait_for(waiting, 10) == "timeout"


def test_a_thread_may_wait_for_it(jail: None) -> None:
    told: list[str] = []
    with cloche.Sandbox() as box:
        thread = threading.Thread(target=lambda: told.append(box.ended()))
        thread.start()
        assert box.run("1 + 1").text == "2"
        assert box.usage().memory_peak >= 0
        assert told == []
    thread.join(10)
    assert told == ["closed"]
