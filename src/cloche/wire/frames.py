"""Frames: a length, the operation that they belong to, a kind, and a payload.

Both ends use this module, so it needs only the standard library and imports next to nothing.  Neither end trusts the
other's numbers: a frame that is too long, or of an unexpected kind, ends the connection.

Each operation moves bulk data (output, input, file contents) under credit: a sender may have `WINDOW` bytes in transit,
and the receiver grants more as it consumes them.  So a slow reader slows the writer, and no buffer grows past the
window.
"""

from __future__ import annotations

from _struct import Struct

from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_PAYLOAD = 1 << 20
REQUESTS = (1 << 32) - 1  # the operation for requests that begin inside: for packages
MAX_OPERATIONS = 4096  # open at the same time in one sandbox
CHUNK = 128 << 10  # bytes of bulk data in one frame
WINDOW = 2 << 20  # bytes of bulk data in transit in one direction of one operation
READ_WINDOW = 512 << 10  # the same for a file that is read and from a server inside: there may be many at once
LEAST = 512  # the minimum cost of a frame from the agent, so that the window also bounds the number of frames

# From the engine
RUN, CALL, SIGNAL, RESIZE, CANCEL, INPUT, INPUT_END = 1, 2, 3, 4, 5, 6, 7
CELL, ANSWER = 9, 10
# From either side: the number of additional bytes that the other side may send
CREDIT = 8
# From the agent to a kernel, besides CELL and ANSWER (see cloche.kernels); SYNC goes in both directions
FORK, ASK, SYNC = 11, 12, 13
# From the agent
STARTED, STDOUT, STDERR, EXIT, REPLY, FAIL, DATA, EVENT = 16, 17, 18, 19, 20, 21, 22, 23

FROM_ENGINE = frozenset((RUN, CALL, SIGNAL, RESIZE, CANCEL, INPUT, INPUT_END, CREDIT, CELL, ANSWER))
FROM_AGENT = frozenset((CREDIT, STARTED, STDOUT, STDERR, EXIT, REPLY, FAIL, DATA, EVENT))
TO_KERNEL = frozenset((CELL, ANSWER, FORK, ASK, SYNC))
FROM_KERNEL = frozenset((STARTED, STDOUT, STDERR, DATA, EVENT, EXIT, REPLY, FAIL, SYNC))
BULK = frozenset((STDOUT, STDERR, DATA, INPUT))  # kinds that cost credit
LAST = frozenset((EXIT, REPLY, FAIL))  # kinds that end their operation

_HEADER = Struct(">IIB")


class Garbled(Exception):
    """The other side violates the protocol."""


def encode(operation: int, kind: int, payload: bytes | memoryview = b"") -> bytes:
    """Encode a frame."""
    return header(operation, kind, len(payload)) + payload


def header(operation: int, kind: int, size: int) -> bytes:
    """Encode a frame's header, for callers that send the payload separately and save a copy."""
    if size > MAX_PAYLOAD:
        raise ValueError(f"a frame carries at most {MAX_PAYLOAD} bytes, not {size}")
    return _HEADER.pack(size, operation, kind)


def encode_json(operation: int, kind: int, value: Any) -> bytes:
    """Encode a frame whose payload is JSON; file names that are not UTF-8 travel as lone surrogates."""
    if (least := _characters(value)) > MAX_PAYLOAD:  # before it is encoded, which would take long
        header(operation, kind, least)
    return encode(operation, kind, dumps(value).encode())


def _characters(value: Any) -> int:
    """Count the characters of a value's texts, down to those in its lists and objects."""
    if type(value) is str:
        return len(value)
    parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    count = 0
    for part in parts:
        if type(part) is str:
            count += len(part)
        elif type(part) in (list, tuple):
            count += sum([len(one) for one in part if type(one) is str])
        elif type(part) is dict:
            count += sum([len(one) for one in part.values() if type(one) is str])
    return count


def decode_json(payload: bytes) -> dict[str, Any]:
    """Return the JSON object in a payload."""
    try:
        value = loads(payload.decode())
    except (ValueError, RecursionError) as problem:
        raise Garbled(f"not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise Garbled("not a JSON object")
    return value


def credit(operation: int, count: int) -> bytes:
    """Encode a frame that allows the other side `count` more bytes."""
    return encode(operation, CREDIT, count.to_bytes(4, "big"))


def cost(payload: bytes) -> int:
    """Return the credit that a frame of bulk data from the agent costs."""
    return max(len(payload), LEAST)


class Decoder:
    """Turns received bytes into frames, and rejects invalid ones."""

    def __init__(self, expected: frozenset[int]) -> None:
        self._expected = expected
        self._partial = bytearray()  # part of a header, or of a payload whose header is known
        self._frame: tuple[int, int, int] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield the frames that are complete after these bytes: operation, kind, payload.  Consume all of them."""
        view, position = memoryview(data), 0
        while True:
            missing = (_HEADER.size if self._frame is None else self._frame[0]) - len(self._partial)
            if len(view) - position < missing:
                self._partial += view[position:]
                return
            part = data[position : position + missing]  # most frames arrive in one piece, and are copied once
            position += missing
            if self._partial:
                self._partial += part
                part = bytes(self._partial)
                self._partial.clear()
            if self._frame is None:
                length, operation, kind = self._frame = _HEADER.unpack(part)
                if length > MAX_PAYLOAD or kind not in self._expected:
                    raise Garbled(f"a frame of kind {kind} with {length} bytes")
            else:
                (_, operation, kind), self._frame = self._frame, None
                yield operation, kind, part
