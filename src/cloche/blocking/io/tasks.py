"""Locks, conditions and tasks for plain threads; the twin of `cloche.io.tasks`, written by hand."""

from __future__ import annotations

from _collections_abc import Callable, Mapping, Sequence
from _thread import LockType, RLock, allocate_lock, start_new_thread
from time import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

Lock = allocate_lock


class Condition(RLock):  # type: ignore[misc]  # it can be inherited from, whatever its description says
    """A condition whose wait can time out.  That of `threading` takes 4 ms to import, a third of a Python's start.

    It is a lock, rather than having one: whoever enters it cannot be interrupted (Ctrl-C, in a notebook say) between
    taking the lock and being inside, which would leave it locked for ever.
    """

    def __init__(self) -> None:
        self._waiting: list[LockType] = []  # one lock for each waiting thread, taken until there is news

    def notify_all(self) -> None:
        """Wake all waiting threads; the caller has the lock."""
        for news in self._waiting:
            news.release()
        self._waiting.clear()

    def wait_for_change(self, timeout: float | None) -> None:
        """Wait until somebody notifies; TimeoutError when nobody does.  The caller has the lock, before and after."""
        news = allocate_lock()
        news.acquire()
        self._waiting.append(news)
        self.release()
        try:
            notified = news.acquire(True, -1 if timeout is None else max(timeout, 0))
        finally:
            self.acquire()
            if news in self._waiting:  # nobody has notified us, and nobody need to
                self._waiting.remove(news)
        if not notified:
            raise TimeoutError


class Tasks:
    """Work done at once: there is no loop that could do it meanwhile."""

    def start(self, function: Callable[..., None], *args: Any) -> None:
        """Do a piece of work."""
        function(*args)

    def has_room(self) -> bool:
        """May another piece begin?"""
        return True

    def cancel(self) -> None:
        """Nothing is under way."""


def call_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], _timeout: float) -> Any:
    """Call a function of the owner's, asynchronous or not; it takes as long as it takes."""
    from inspect import isawaitable

    value = function(*args, **kwargs)
    if not isawaitable(value):
        return value
    import asyncio

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def off_loop(_size: int, work: Callable[[], T], _large: int = 0) -> T:
    """Do work; there is no loop that could serve others."""
    return work()


def in_own_thread(work: Callable[[], T]) -> T:
    """Do work; the caller's own thread waits for nobody else."""
    return work()


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Do these jobs side by side; their values."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(jobs) or 1) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


class Job:
    """Work that is done at once; a plain thread is not cancelled meanwhile."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._value = work()

    def wait(self) -> Any:
        """Return the value of the work."""
        return self._value

    def give_up(self, late: Callable[[Any], None]) -> None:
        """Pass the value to `late`."""
        late(self._value)


def start_aside(work: Callable[[], None]) -> None:
    """Do work that nobody waits for, and that raises nothing."""
    start_new_thread(work, ())


def pause(seconds: float) -> None:
    """Let some time pass."""
    sleep(seconds)
