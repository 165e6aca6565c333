"""The same work on many items, a few of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

WORKERS = 8

T = TypeVar("T")


async def in_parallel(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do `work` with every item, a few at a time; the first failure ends the others."""
    ahead: Iterator[T] = iter(items)

    async def worker() -> None:
        for item in ahead:
            await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(WORKERS)]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
