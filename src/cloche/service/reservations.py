"""Keeps requests that come at once within a number that each owner may have.

To make a thing takes time.  Without a place reserved for it, all requests that begin meanwhile find the old number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from cloche.errors import Refused


class Reservations:
    """The things that are being made, by their owner."""

    def __init__(self, most: int, refusal: str, hint: str) -> None:
        self._most, self._refusal, self._hint = most, refusal, hint
        self._reserved: Counter[str] = Counter()

    @contextmanager
    def one(self, owner: str, existing: int) -> Iterator[None]:
        """Reserve a place beside those that exist, until the thing exists or could not be made."""
        if existing + self._reserved[owner] >= self._most:
            raise Refused(self._refusal, self._hint)
        self._reserved[owner] += 1
        try:
            yield
        finally:
            self._reserved[owner] -= 1
            if not self._reserved[owner]:
                del self._reserved[owner]
