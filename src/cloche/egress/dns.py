"""Reads DNS questions and writes answers, over UDP and TCP (RFC 1035).  No question leaves this process."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

MAX_QUESTION = 512  # bytes of a question, with its extensions
A, AAAA = 1, 28
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = range(6)
_HEAD = Struct(">HHHHHH")
_IN, _ANY = 1, 255
_RESPONSE, _WANTS_RECURSION, _HAS_RECURSION = 0x8000, 0x0100, 0x0080
_OPERATION = 0x7800
_POINTER_TO_QUESTION = 0xC00C
_TTL_S = 30


class Question(NamedTuple):
    """A question that asks for one kind of record of one name."""

    number: int
    flags: int
    name: str  # as it was asked, without a final dot
    kind: int
    raw: bytes  # the question section

    def answer(self, code: int, records: tuple[bytes, ...] = ()) -> bytes:
        """An answer with the data of records of the kind that was asked for."""
        flags = _RESPONSE | _HAS_RECURSION | (self.flags & (_WANTS_RECURSION | _OPERATION)) | code
        head = _HEAD.pack(self.number, flags, 1, len(records), 0, 0)
        return head + self.raw + b"".join(_record(self.kind, data) for data in records)


def read(message: bytes) -> Question | bytes | None:
    """A question; an error to be sent back; or None for a message that deserves no answer."""
    if not _HEAD.size < len(message) <= MAX_QUESTION:
        return None
    number, flags, questions, answers, _, _ = _HEAD.unpack_from(message)
    if flags & _RESPONSE:
        return None
    if flags & _OPERATION:
        return _error(number, flags, NOT_IMPLEMENTED)
    if questions != 1 or answers:
        return _error(number, flags, FORMAT_ERROR)
    labels, at = [], _HEAD.size
    while True:
        if at >= len(message):
            return _error(number, flags, FORMAT_ERROR)
        length = message[at]
        at += 1
        if not length:
            break
        if length > 63 or at + length > len(message):
            return _error(number, flags, FORMAT_ERROR)
        labels.append(message[at : at + length])
        at += length
    if at + 4 > len(message):
        return _error(number, flags, FORMAT_ERROR)
    kind, class_ = int.from_bytes(message[at : at + 2], "big"), int.from_bytes(message[at + 2 : at + 4], "big")
    if class_ not in (_IN, _ANY):
        return _error(number, flags, REFUSED)
    name = b".".join(labels).decode("latin-1")
    return Question(number, flags, name, kind, message[_HEAD.size : at + 4])


def _error(number: int, flags: int, code: int) -> bytes:
    return _HEAD.pack(number, _RESPONSE | (flags & (_WANTS_RECURSION | _OPERATION)) | code, 0, 0, 0, 0)


def _record(kind: int, data: bytes) -> bytes:
    return _POINTER_TO_QUESTION.to_bytes(2, "big") + Struct(">HHIH").pack(kind, _IN, _TTL_S, len(data)) + data
