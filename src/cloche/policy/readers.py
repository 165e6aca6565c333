"""Bounds the streams that are open at the same time: events, terminals, watches, live pages, archives.

Each holds a place of its key, and of the sandbox or run that it reads.
"""

from __future__ import annotations

from collections import Counter

from cloche.policy.meter import Meter
from cloche.policy.refusals import TooMany

_SOON_S = 1.0  # the end of a stream cannot be predicted


class Reader:
    """One open stream; with a meter, the bytes that it sends count for its key's day."""

    def __init__(self, readers: Readers, key_id: str, source: str, meter: Meter | None) -> None:
        self._readers, self._meter = readers, meter
        self.key_id, self.source = key_id, source

    def count(self, size: int) -> None:
        """Count bytes before they are sent; raises TooMany when the key's day has no more."""
        if self._meter is not None:
            self._meter.move(size)

    def leave(self) -> None:
        """Give the place up."""
        self._readers.leave(self)


class Readers:
    """All open streams of one server."""

    def __init__(self, most_per_key: int, most_per_sandbox: int) -> None:
        self._most_per_key, self._most_per_sandbox = most_per_key, most_per_sandbox
        self._by_key: Counter[str] = Counter()
        self._by_source: Counter[str] = Counter()

    def enter(self, key_id: str, source: str = "", meter: Meter | None = None) -> Reader:
        """Take a place until `leave` is called; `source` is the id of the sandbox or run that the stream reads."""
        if self._by_key[key_id] >= self._most_per_key:
            raise TooMany(
                f"This key has {self._most_per_key:,} streams open.",
                "Close some of them, or ask the operator to raise `readers_per_key`.",
                limit="readers_per_key",
                retry_after=_SOON_S,
            )
        if source and self._by_source[source] >= self._most_per_sandbox:
            raise TooMany(
                f"{self._most_per_sandbox:,} streams of this sandbox or run are open.",
                "Close some of them, or ask the operator to raise `readers_per_sandbox`.",
                limit="readers_per_sandbox",
                retry_after=_SOON_S,
            )
        if meter is not None:
            meter.check_day("bytes_per_day")
        self._by_key[key_id] += 1
        self._by_source[source] += 1
        return Reader(self, key_id, source, meter)

    def leave(self, reader: Reader) -> None:
        _leave(self._by_key, reader.key_id)
        _leave(self._by_source, reader.source)


def _leave(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
