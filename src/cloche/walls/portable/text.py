"""A byte stream as lines of base64, for connections that carry only text, such as a command's standard streams."""

from __future__ import annotations

import os
from _thread import start_new_thread
from binascii import Error, a2b_base64, b2a_base64

CHUNK = 48 << 10  # bytes per line


class NotBase64(Exception):
    """A line is not base64."""


class LineDecoder:
    """Decodes lines, however they are cut into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take more text; returns the bytes of the lines that are complete by now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            return b"".join(a2b_base64(line) for line in lines)
        except Error as problem:
            raise NotBase64(str(problem)) from None


def encoded(data: bytes) -> bytes:
    """Encode bytes as lines."""
    return b"".join(b2a_base64(data[start : start + CHUNK]) for start in range(0, len(data), CHUNK))


def relay(stream: int, incoming: int, outgoing: int) -> None:
    """Write a stream's bytes out as lines, and lines back into it, until the stream ends.

    Each direction has a thread, so that neither waits for the other.
    """
    start_new_thread(_decode, (incoming, stream))
    while data := _read(stream):
        _write(outgoing, encoded(data))


def _decode(incoming: int, stream: int) -> None:
    decoder = LineDecoder()
    try:
        while data := _read(incoming):
            _write(stream, decoder.feed(data))
    except (OSError, NotBase64):
        pass
    os._exit(0)  # the engine is gone


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
