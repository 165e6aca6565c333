"""What has happened, in order, for whoever listens now and for whoever comes later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from json import dumps
from typing import Any

from cloche.service.shapes import to_json

STUCK_S = 30.0  # one who takes nothing for so long is not waited for
GAP = "gap"  # the kind of event that stands for those that were dropped


class Happened:
    """An event: its number, its kind, and what it tells; that becomes JSON when somebody wants it."""

    __slots__ = ("_data", "_told", "kind", "number", "size")

    def __init__(self, number: int, kind: str, told: dict[str, Any], size: int = 0) -> None:
        self.number, self.kind, self._told = number, kind, told
        self.size = size or _size(told)
        self._data = ""

    @property
    def data(self) -> str:
        """What it tells, as JSON."""
        if not self._data:
            self._data, self._told = encode(self._told), {}
        return self._data


def _size(told: dict[str, Any]) -> int:
    """Characters, more or less; not found by writing the JSON, for most events nobody ever wants it."""
    size = 64
    rest: list[dict[str, Any] | list[Any]] = [told]
    while rest:
        part = rest.pop()
        size += 8 * len(part) + (sum(map(len, part)) if isinstance(part, dict) else 0)
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, str):
                size += len(value)
            elif isinstance(value, dict | list):
                rest.append(value)
    return size


class Encoded(str):
    """JSON already: what is large is turned into it once, however many are told."""

    __slots__ = ()


def encode(told: dict[str, Any]) -> str:
    """What an event tells, as JSON."""
    for value in told.values():
        if type(value) is Encoded:
            break
    else:
        return to_json(told)
    parts = (f"{dumps(name)}:{value if type(value) is Encoded else to_json(value)}" for name, value in told.items())
    return f"{{{','.join(parts)}}}"


class EventLog:
    """Events, numbered from 1; past `most` characters the oldest are dropped, and whoever wants them is told so."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: deque[Happened] = deque()
        self._waiting: set[asyncio.Future[None]] = set()
        self._followers: dict[object, int] = {}  # how much each who listens has been told
        self.size = self.last = self._told = 0
        self.over = False

    def add(self, kind: str, told: dict[str, Any], size: int = 0) -> Happened:
        """Something has happened; `size` for one who knows how much there is to tell."""
        self.last += 1
        happened = Happened(self.last, kind, told, size)
        self._kept.append(happened)
        self.size += happened.size
        self._told += happened.size
        while self.size > self._most and len(self._kept) > 1:
            self.size -= self._kept.popleft().size
        self._wake()
        return happened

    async def keep_pace(self) -> None:
        """Wait while somebody who listens is far behind, or he would miss something; not for ever, he may be stuck."""
        while self._followers and self._told - min(self._followers.values()) > self._most // 2 and not self.over:
            if not await self._change(STUCK_S):
                return

    def end(self) -> None:
        """Nothing more will happen."""
        self.over = True
        self._wake()

    async def follow(self, after: int = 0) -> AsyncIterator[Happened]:
        """All that happens after an event, until the end."""
        async for batch in self.batches(after):
            for happened in batch:
                yield happened

    async def batches(self, after: int = 0, patience_s: float | None = None) -> AsyncIterator[list[Happened]]:
        """The same, as much at a time as there is; an empty list when nothing has happened for a while."""
        after, me = min(after, self.last), object()
        self._followers[me] = self._told
        try:
            while True:
                batch, told = self._since(after), self._told
                if batch:
                    after = batch[-1].number
                    yield batch
                    self._followers[me] = told
                    self._wake()  # whoever keeps pace with us
                elif self.over:
                    return
                elif not await self._change(patience_s):
                    yield []
        finally:
            del self._followers[me]

    def _since(self, after: int) -> list[Happened]:
        first = self._kept[0].number if self._kept else self.last + 1
        if after + 1 < first:
            missed = Happened(first - 1, GAP, {"from": after + 1, "to": first - 1})
            return [missed, *self._kept]
        return [self._kept[index] for index in range(after + 1 - first, len(self._kept))]

    async def _change(self, patience_s: float | None) -> bool:
        """Wait for something to happen; has it?"""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(patience_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
