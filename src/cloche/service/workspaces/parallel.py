"""The same work on many things, a few of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

AT_ONCE = 8

T = TypeVar("T")


async def at_once(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do something with all of them, a few at a time; the first failure is the failure of all."""
    ahead: Iterator[T] = iter(items)

    async def worker() -> None:
        for item in ahead:
            await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
