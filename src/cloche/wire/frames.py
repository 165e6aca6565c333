"""Frames: a length, the operation they belong to, a kind, and a payload.

Both ends use this module, so it needs the standard library alone and imports next to nothing.  Neither end trusts the
other's numbers: a frame that is too long, or of a kind that this end never receives, ends the conversation.

Each operation moves bulk data (output, input, file contents) under credit: a sender may have `WINDOW` bytes under way,
and the receiver grants more as it consumes.  So a slow reader slows the writer, and no buffer grows past the window.
"""

from __future__ import annotations

from _struct import Struct

from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_PAYLOAD = 1 << 20
MAX_OPERATIONS = 4096  # open at a time in one sandbox
CHUNK = 128 << 10  # of bulk data in one frame
WINDOW = 2 << 20  # of bulk data under way in one direction of one operation
LEAST = 512  # what a frame from the agent counts for at least: so the window bounds their number, too

# From the engine
RUN, CALL, SIGNAL, RESIZE, CANCEL, INPUT, INPUT_END = 1, 2, 3, 4, 5, 6, 7
CELL, ANSWER = 9, 10
# From either: a number of bytes that the other side may send in addition
CREDIT = 8
# From the agent to a kernel, beside CELL and ANSWER (see cloche.kernels); SYNC goes there and back
FORK, ASK, SYNC = 11, 12, 13
# From the agent
STARTED, STDOUT, STDERR, EXIT, REPLY, FAIL, DATA, EVENT = 16, 17, 18, 19, 20, 21, 22, 23

FROM_ENGINE = frozenset((RUN, CALL, SIGNAL, RESIZE, CANCEL, INPUT, INPUT_END, CREDIT, CELL, ANSWER))
FROM_AGENT = frozenset((CREDIT, STARTED, STDOUT, STDERR, EXIT, REPLY, FAIL, DATA, EVENT))
TO_KERNEL = frozenset((CELL, ANSWER, FORK, ASK, SYNC))
FROM_KERNEL = frozenset((STARTED, STDOUT, STDERR, DATA, EVENT, EXIT, REPLY, FAIL, SYNC))
BULK = frozenset((STDOUT, STDERR, DATA, INPUT))  # what credit is counted for
LAST = frozenset((EXIT, REPLY, FAIL))  # nothing comes after it, in its operation

_HEADER = Struct(">IIB")


class Garbled(Exception):
    """The other side does not keep to the protocol."""


def encode(operation: int, kind: int, payload: bytes | memoryview = b"") -> bytes:
    """One frame as bytes."""
    return header(operation, kind, len(payload)) + payload


def header(operation: int, kind: int, size: int) -> bytes:
    """The beginning of a frame, for who sends a payload of this size right after it and saves a copy."""
    if size > MAX_PAYLOAD:
        raise ValueError(f"a frame carries at most {MAX_PAYLOAD} bytes, not {size}")
    return _HEADER.pack(size, operation, kind)


def encode_json(operation: int, kind: int, value: Any) -> bytes:
    """One frame whose payload is JSON; names that are not UTF-8 travel as lone surrogates."""
    return encode(operation, kind, dumps(value).encode())


def decode_json(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload."""
    try:
        value = loads(payload.decode())
    except (ValueError, RecursionError) as problem:
        raise Garbled(f"not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise Garbled("not a JSON object")
    return value


def credit(operation: int, count: int) -> bytes:
    """A frame that allows the other side `count` more bytes."""
    return encode(operation, CREDIT, count.to_bytes(4, "big"))


def cost(payload: bytes) -> int:
    """How much credit a frame of bulk data from the agent takes."""
    return max(len(payload), LEAST)


class Decoder:
    """Turns received bytes into frames, and refuses what is out of bounds."""

    def __init__(self, expected: frozenset[int]) -> None:
        self._expected = expected
        self._begun = bytearray()  # of a header, or of the payload of a frame whose header is known
        self._frame: tuple[int, int, int] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The frames that are complete after these bytes: operation, kind, payload.  To be taken to the end."""
        view, position = memoryview(data), 0
        while True:
            missing = (_HEADER.size if self._frame is None else self._frame[0]) - len(self._begun)
            if len(view) - position < missing:
                self._begun += view[position:]
                return
            part = data[position : position + missing]  # most frames are within what is received at once: one copy
            position += missing
            if self._begun:
                self._begun += part
                part = bytes(self._begun)
                self._begun.clear()
            if self._frame is None:
                length, operation, kind = self._frame = _HEADER.unpack(part)
                if length > MAX_PAYLOAD or kind not in self._expected:
                    raise Garbled(f"a frame of kind {kind} with {length} bytes")
            else:
                (_, operation, kind), self._frame = self._frame, None
                yield operation, kind, part
