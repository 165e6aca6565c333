"""Locks, conditions and tasks for asyncio; the twin for plain threads, `cloche.blocking.io.tasks`, is by hand."""

from __future__ import annotations

import asyncio
import inspect
from _collections_abc import Callable, Coroutine, Mapping, Sequence
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
_MAX_TASKS = 1000
LARGE = 64 << 10  # bytes or characters from which work on them is done in a thread

AsyncLock = asyncio.Lock


class AsyncCondition(asyncio.Condition):
    """A condition whose wait can time out."""

    async def wait_for_change(self, timeout: float | None) -> None:
        """Wait for a notification; TimeoutError when none comes in time."""
        async with asyncio.timeout(timeout):
            await self.wait()


class AsyncTasks:
    """Work done meanwhile on behalf of one cell, which cancels it when it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin a piece of work."""
        task = asyncio.create_task(function(*args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def has_room(self) -> bool:
        """Return whether another piece of work may begin."""
        return len(self._tasks) < _MAX_TASKS

    async def cancel(self) -> None:
        """Cancel all of it."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def call_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], timeout: float
) -> Any:
    """Call a function of the owner's, asynchronous or not; TimeoutError when it takes too long."""
    async with asyncio.timeout(timeout):
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        value = await asyncio.to_thread(function, *args, **kwargs)
        return await value if inspect.isawaitable(value) else value


async def off_loop(size: int, work: Callable[[], T], large: int = LARGE) -> T:
    """Do work on so many bytes or characters: in a thread if they are many, so that the loop serves others."""
    return work() if size < large else await asyncio.to_thread(work)


async def in_own_thread(work: Callable[[], T]) -> T:
    """Do work that may take minutes, such as waiting for an index.

    In `off_loop`'s few threads, some such work would keep everything else waiting, and the end of the process, too.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def conclude(value: T | None, problem: BaseException | None) -> None:
        if outcome.done():
            return  # the task that waited was cancelled
        if problem is None:
            outcome.set_result(value)  # type: ignore[arg-type]  # it has a value where there is no problem
        else:
            outcome.set_exception(problem)

    def carry_out() -> None:
        value, problem = None, None
        try:
            value = work()
        except BaseException as raised:
            problem = raised
        try:
            loop.call_soon_threadsafe(conclude, value, problem)
        except RuntimeError:
            pass  # the loop has ended, and nobody waits any more

    Thread(target=carry_out, daemon=True).start()
    return await outcome


async def at_once(jobs: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run these jobs concurrently; return their values, or raise the first exception."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job()) for job in jobs]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


class AsyncJob:
    """Work that goes on when the task that waits for it is cancelled, so that another task can wait for it."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._task = asyncio.ensure_future(work())
        self._task.add_done_callback(_look_at)  # asyncio reports exceptions that nobody has looked at

    async def wait(self) -> Any:
        """Wait for the end of the work; return its value or raise its exception."""
        return await asyncio.shield(self._task)

    def give_up(self, late: Callable[[Any], None]) -> None:
        """Pass the value to `late` as soon as there is one, because no task waits for it any more."""

        def pass_on(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None:
                late(done.result())

        self._task.add_done_callback(pass_on)


def _look_at(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


_aside: set[asyncio.Task[None]] = set()  # asyncio itself keeps no task alive


def start_aside(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do work that nobody waits for, and that raises nothing."""
    task = asyncio.ensure_future(work())
    _aside.add(task)
    task.add_done_callback(_aside.discard)


async def pause(seconds: float) -> None:
    """Wait for some time."""
    await asyncio.sleep(seconds)
