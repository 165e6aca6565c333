"""Mutations of valid messages: one place changed at a time, so that most of the message stays valid."""

from __future__ import annotations

import copy
import random
from typing import Any

# Values that have broken parsers before: bounds of integers, odd numbers, odd texts, wrong types.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**53 + 1, -(2**63), 2**64, 10**400,
    1e308, -0.0, float("nan"), float("inf"),
    "", " ", "\0", "\ud800", "\u202e", "a\nb", "é" * 300, "x" * 70_000,
    "../../etc/passwd", "/proc/self/mem", "%ff%00", "1e999", "NaN",
    [], {}, [[]], [None], {"": None}, {"\0": "\0"}, [[[[[[[[[[]]]]]]]]]], [0] * 3000, {str(n): n for n in range(3000)},
)  # fmt: skip
_BYTES = (b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\r\n", b"{", b"}", b"[", b'"', b"\\u0000", b"\x7f" * 9, b"\xff" * 4)


class Mutator:
    """Makes mutations; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def json(self, value: Any) -> Any:
        """Return a copy of a JSON value with one to three places changed."""
        changed = copy.deepcopy(value)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            changed = self._json_once(changed)
        return changed

    def _json_once(self, value: Any) -> Any:
        places = list(_places(value))
        if not places or self.random.random() < 0.03:
            return copy.deepcopy(self.random.choice(ODD))
        holder, key = self.random.choice(places)
        act = self.random.randrange(8)
        if act == 0:
            del holder[key]
        elif act == 1 and isinstance(holder, dict):
            holder[str(self.random.choice(ODD))[:100] + "x"] = copy.deepcopy(self.random.choice(ODD))
        elif act == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(self.random.choice(ODD)))
        elif act == 3 and isinstance(holder[key], str):
            holder[key] = self.text(holder[key])
        elif act == 4 and isinstance(holder[key], int):
            holder[key] += self.random.choice((-1, 1, 256, 2**31, -(2**33)))
        elif act == 5:  # a value from elsewhere in the same message
            other, place = self.random.choice(places)
            holder[key] = copy.deepcopy(other[place])
        else:
            holder[key] = copy.deepcopy(self.random.choice(ODD))
        return value

    def text(self, value: str) -> str:
        """Return a text with one place changed."""
        place = self.random.randint(0, len(value))
        more = self.random.choice(("\0", "\n", "/", "..", "%", "'", '"', "\\", "\u202e", "\U0001f600", "\ud800", "0"))
        return value[:place] + more + value[place + self.random.choice((0, 1, 4)) :]

    def data(self, value: bytes) -> bytes:
        """Return bytes with a few places changed, cut, doubled or added."""
        changed = bytearray(value)
        for _ in range(self.random.choice((1, 1, 2, 5))):
            place = self.random.randint(0, len(changed))
            match self.random.randrange(5):
                case 0 if place < len(changed):
                    changed[place] ^= 1 << self.random.randrange(8)
                case 1:
                    changed[place:place] = self.random.choice(_BYTES)
                case 2:
                    del changed[place : place + self.random.choice((1, 2, 8, 64))]
                case 3:
                    changed[place:place] = changed[place : place + self.random.choice((1, 4, 16, 256))]
                case _ if place < len(changed):
                    changed[place] = self.random.randrange(256)
        return bytes(changed)


def _places(value: Any) -> Any:
    """Every container of a JSON value, with each of its keys."""
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield value, place
            yield from _places(each)
