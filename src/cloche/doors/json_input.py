"""Reads the JSON that clients send, for all doors: bounded before anything is built from it, and off the event loop.

A small text can describe millions of values: 15 MB of `[],` take gigabytes once they are Python objects, and minutes to
validate.  So the values of a text are counted first, on its bytes, piece by piece as they arrive.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from json import JSONDecoder
from typing import Any

from pydantic_core import from_json

from cloche.errors import InvalidRun
from cloche.io.tasks import off_loop
from cloche.policy.amounts import check_amounts

MAX_VALUES = 100_000  # members of all lists and objects together
MAX_DEPTH = 64  # lists and objects inside each other
_PIECE = 256 << 10  # bytes that are counted at a time, since other threads wait meanwhile
LARGE_JSON = 16 << 10  # bytes of a text that is parsed in a thread: they may be thousands of values
_HINT = "Send less in one request."
_NOT_JSON = "Send one JSON object, in UTF-8."
_BOM = b"\xef\xbb\xbf"

_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): 0xFF, ord("}"): 0xFF}  # 0xFF is -1 as a signed byte
_AS_STEP = bytes(_STEPS.get(byte, 0) for byte in range(256))
_NO_STEP = bytes(byte for byte in range(256) if byte not in _STEPS)


class JsonMeter:
    """Counts the values of a JSON text, whose pieces arrive one after the other; raises when there are too many.

    For a text that is not JSON, the count is right up to the place where a parser stops.
    """

    def __init__(self) -> None:
        self._values = self._depth = 0
        self._in_string = 0
        self._rest = b""  # a backslash at the end of the last piece

    def feed(self, piece: bytes) -> None:
        """Count the values in the next piece."""
        if 0 in piece:
            # UTF-16 and UTF-32 have such bytes.  Python's parser would accept both, and the count would be wrong.
            raise InvalidRun("The body is not JSON in UTF-8.", hint=_NOT_JSON)
        for start in range(0, len(piece), _PIECE):
            self._count(piece[start : start + _PIECE])

    def _count(self, piece: bytes) -> None:
        piece = (self._rest + piece).replace(b"\\\\", b"")
        self._rest = b""
        if piece.endswith(b"\\"):
            piece, self._rest = piece[:-1], b"\\"
        piece = piece.replace(b'\\"', b"")
        # Each string is at least one value or the name of one, so the split makes a bounded number of parts.
        quotes = piece.count(b'"')
        if quotes > 4 * MAX_VALUES:
            raise _too_many()
        if quotes:
            parts = piece.split(b'"')
            piece = b"".join(parts[self._in_string :: 2])
            self._in_string ^= quotes & 1
        elif self._in_string:
            return
        opened = piece.count(b"[") + piece.count(b"{")
        self._values += opened + piece.count(b",")
        if self._values > MAX_VALUES:
            raise _too_many()
        if opened and self._depth + opened > MAX_DEPTH:
            steps = array("b", piece.translate(_AS_STEP, _NO_STEP))
            deepest = max(accumulate(steps, initial=self._depth))
            if deepest > MAX_DEPTH:
                raise InvalidRun(
                    f"The JSON is nested too deeply: lists and objects may be inside each other {MAX_DEPTH} times.",
                    hint="Send it in a flatter form.",
                )
            self._depth += sum(steps)
        else:
            self._depth += opened - piece.count(b"]") - piece.count(b"}")


def parsed_json(text: bytes | str) -> Any:
    """Parse a JSON text; ValueError if it is anything else, InvalidRun if it has too many values.

    NaN and infinity are not JSON.  Lone surrogates are: they stand for the bytes of file names that are not UTF-8.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text.removeprefix(_BOM)
    if len(data) > MAX_VALUES or data.count(b"[") + data.count(b"{") > MAX_DEPTH or 0 in data:
        JsonMeter().feed(data)
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        value = _decode(text if isinstance(text, str) else data.decode())
    if isinstance(value, dict | list):
        pairs = data.count(b":")
        if pairs != len(value) and _pairs_of(data) != _names_in(value):
            raise InvalidRun("An object in the JSON has the same name twice.", hint="Send each name once.")
    check_amounts(value)
    return value


async def read_json(text: bytes | str) -> Any:
    """Parse a JSON text as `parsed_json` does, without holding the event loop."""
    return await off_loop(len(text), lambda: parsed_json(text), LARGE_JSON)


async def joined(parts: Sequence[bytes]) -> bytes:
    """Join the parts of a body without holding the event loop: to copy megabytes takes long."""
    return parts[0] if len(parts) == 1 else await off_loop(sum(map(len, parts)), lambda: b"".join(parts))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode = JSONDecoder(parse_constant=_no_constant).decode


def _pairs_of(data: bytes) -> int:
    """Count the colons of a valid JSON text that are not in strings."""
    parts = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    return sum(part.count(b":") for part in parts[::2])


def _names_in(value: Any) -> int:
    """Count the names in all objects."""
    count, found = 0, [value]
    while found:
        one = found.pop()
        if isinstance(one, dict):
            count += len(one)
            found += [each for each in one.values() if isinstance(each, dict | list)]
        else:
            found += [each for each in one if isinstance(each, dict | list)]
    return count


def _too_many() -> InvalidRun:
    return InvalidRun(f"The JSON has too many values: {MAX_VALUES} may be sent at once.", hint=_HINT)
