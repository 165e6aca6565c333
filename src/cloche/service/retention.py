"""Keeps runs and commands that have ended, with their events and results, within one bound for all of them."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Protocol

from cloche.service.log_space import LogSpace

MAX_KEPT = 128 << 20  # bytes, by our estimate; with what the allocator adds, the process grows by less than 256 MB
MAX_ITEMS = 2000


class Ended(Protocol):
    """A run or a command that has ended."""

    @property
    def owner(self) -> str: ...

    @property
    def size(self) -> int:
        """About how many bytes it takes."""

    @property
    def is_read(self) -> bool:
        """Whether a client is reading its events or waits for its result."""

    def forget(self) -> None:
        """Give up the memory; readers learn that the rest is gone."""


class Retention:
    """The runs and commands that are kept, by owner and oldest first.

    When they are too large or too many, the owner who takes the most loses the oldest that nobody reads: nobody can
    push out what belongs to others who keep little.
    """

    def __init__(self, most_bytes: int = MAX_KEPT, most_items: int = MAX_ITEMS) -> None:
        self._most_bytes, self._most_items = most_bytes, most_items
        self.live = LogSpace()  # for the logs of those that have not ended
        self._kept: dict[str, OrderedDict[int, tuple[Ended, int]]] = {}
        self._sizes: dict[str, int] = {}
        self.count = self.size = 0

    def add(self, item: Ended) -> None:
        """Keep a run or command that has just ended."""
        size = item.size
        self._kept.setdefault(item.owner, OrderedDict())[id(item)] = item, size
        self._sizes[item.owner] = self._sizes.get(item.owner, 0) + size
        self.size += size
        self.count += 1
        while self.size > self._most_bytes and self.count > 1:
            self._forget_one(max(self._sizes, key=self._sizes.__getitem__))
        while self.count > self._most_items:
            self._forget_one(max(self._kept, key=lambda owner: len(self._kept[owner])))

    def drop(self, item: Ended) -> None:
        """Stop keeping an item."""
        kept = self._kept.get(item.owner)
        found = None if kept is None else kept.pop(id(item), None)
        if found is None:
            return
        self._sizes[item.owner] -= found[1]
        self.size -= found[1]
        self.count -= 1
        if not self._kept[item.owner]:
            del self._kept[item.owner], self._sizes[item.owner]

    def _forget_one(self, owner: str) -> None:
        kept = self._kept[owner]
        oldest = next(iter(kept.values()))[0]
        # The newest is passed over: its client has had no time to read it.
        unread = (item for item, _ in islice(kept.values(), len(kept) - 1) if not item.is_read)
        item = next(unread, oldest)
        self.drop(item)
        item.forget()
