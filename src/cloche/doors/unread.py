"""Bounds the memory of answers that their clients do not read.

A stream costs little: it is made piece by piece.  An answer or a message that exists as a whole is counted here while
it is being sent.  Past a bound for all of them together, those whose clients have read nothing for the longest time are
cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

MAX_UNREAD = 128 << 20  # bytes
LOOK_S = 1.0  # between two looks, while there is more than that
PATIENCE = 5  # looks in a row at which a client has read nothing; a busy server looks less often


class Unsent:
    """One answer or message that is being sent."""

    def __init__(self, size: int, cut: Callable[[], None]) -> None:
        self.size, self.cut = size, cut
        self.looks = 0  # since the client has last read something

    def move(self) -> None:
        """Note that the client has read something."""
        self.looks = 0


class Unread:
    """All answers and messages that are being sent."""

    def __init__(self, most: int = MAX_UNREAD) -> None:
        self._most = most
        self._unsent: set[Unsent] = set()
        self._looking: asyncio.TimerHandle | None = None
        self.size = 0

    @contextmanager
    def hold(self, size: int, cut: Callable[[], None]) -> Iterator[Unsent]:
        """Count bytes while they are being sent; `cut` ends the connection."""
        unsent = Unsent(size, cut)
        self._unsent.add(unsent)
        self.size += size
        if self.size > self._most and self._looking is None:
            self._look_later()
        try:
            yield unsent
        finally:
            self._forget(unsent)

    def _forget(self, unsent: Unsent) -> None:
        if unsent in self._unsent:
            self._unsent.discard(unsent)
            self.size -= unsent.size

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Cut off clients that have read nothing, for the longest time first; look again while there is too much."""
        self._looking = None
        for unsent in self._unsent:
            unsent.looks += 1
        for unsent in sorted(self._unsent, key=lambda one: -one.looks):
            if self.size <= self._most:
                return
            if unsent.looks < PATIENCE:
                break
            self._forget(unsent)
            unsent.cut()
        if self.size > self._most:
            self._look_later()


UNREAD = Unread()


def moving(pieces: Iterable[T], unsent: Unsent) -> Iterator[T]:
    """The pieces of an answer; each that is asked for means that the client has read something."""
    for piece in pieces:
        yield piece
        unsent.move()
