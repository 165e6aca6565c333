"""Work that may take minutes has threads of its own."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from cloche.io.tasks import LARGE, in_own_thread, off_loop

pytestmark = pytest.mark.embedded


async def test_long_work_leaves_the_threads_of_other_work_alone() -> None:
    go_on = Event()
    waiting = [asyncio.create_task(in_own_thread(go_on.wait)) for _ in range(100)]
    async with asyncio.timeout(20):
        assert await off_loop(LARGE, lambda: 6 * 7) == 42
        go_on.set()
        assert all(await asyncio.gather(*waiting))


async def test_the_exception_of_long_work_is_the_callers() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_own_thread(fail)


async def test_a_caller_that_is_cancelled_does_not_wait_for_long_work() -> None:
    go_on = Event()
    task = asyncio.create_task(in_own_thread(go_on.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
