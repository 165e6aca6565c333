"""A byte stream as lines of base64, for ways that carry text alone, such as a command's standard streams."""

from __future__ import annotations

import os
from _thread import start_new_thread
from binascii import Error, a2b_base64, b2a_base64

CHUNK = 48 << 10  # bytes of one line


class Garbled(Exception):
    """What came is not base64."""


class Decoder:
    """Bytes from lines, however these are cut into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What the lines that are whole by now stand for."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            return b"".join(a2b_base64(line) for line in lines)
        except Error as problem:
            raise Garbled(str(problem)) from None


def encoded(data: bytes) -> bytes:
    """The lines for some bytes."""
    return b"".join(b2a_base64(data[start : start + CHUNK]) for start in range(0, len(data), CHUNK))


def relay(stream: int, incoming: int, outgoing: int) -> None:
    """Carry bytes of a stream out as lines, and lines back in, until the stream ends.

    Each way has a thread, and so neither waits for the other.
    """
    start_new_thread(_decode, (incoming, stream))
    while data := _read(stream):
        _write(outgoing, encoded(data))


def _decode(incoming: int, stream: int) -> None:
    decoder = Decoder()
    try:
        while data := _read(incoming):
            _write(stream, decoder.feed(data))
    except (OSError, Garbled):
        pass
    os._exit(0)  # nobody asks for anything any more


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
