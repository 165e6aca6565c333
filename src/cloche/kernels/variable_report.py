"""Lists of variables from other interpreters, which write them to a named pipe.

The pipe has the number of all variables and then five fields for each: name, type, shape, size, and the beginning of
the value.  A zero byte follows each of them.  Code in the sandbox could write anything there, so the kernel reads for a
limited time, takes a limited number of bytes, and shows no control character.
"""

from __future__ import annotations

import os
import select
from time import monotonic

from cloche.kernels.variable_list import MAX_BYTES, MAX_LISTED, MAX_LOOKED_AT, MAX_NAME, MAX_SHOWN
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_S = 5.0  # after which the agent no longer waits for an answer
_MAX_READ = 4 << 20  # bytes
_FIELDS = 5


class VariableReport:
    """A named pipe to which an interpreter writes its variables once."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.mkfifo(path, 0o600)
        # Without O_NONBLOCK, opening it would wait for the interpreter.
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def read(self, ended: int) -> bytes | None:
        """Read until the interpreter closes its end; None if it takes too long, or has ended (the pidfd `ended`)."""
        poll, deadline, data = select.poll(), monotonic() + _MAX_S, bytearray()
        poll.register(self._fd, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while (left := deadline - monotonic()) > 0 and len(data) < _MAX_READ:
            ready = {fd for fd, _ in poll.poll(left * 1000)}
            if self._fd in ready:
                piece = os.read(self._fd, 1 << 16)
                if not piece:
                    return bytes(data)
                data += piece
            elif ready:
                return None
        return None

    def close(self) -> None:
        """Remove the pipe, so that an interpreter which is late does not wait for a reader."""
        os.unlink(self.path)
        os.close(self._fd)


def described(data: bytes, is_single: bool) -> dict[str, Any]:
    """Return the variables in a report, as far as they are complete and have room in one frame."""
    fields = [field.decode("utf-8", "replace") for field in data.split(b"\0")[:-1]]
    total = _number(fields[0]) if fields else 0
    items: list[dict[str, Any]] = []
    left = MAX_BYTES
    for start in range(1, min(len(fields) - _FIELDS, MAX_LISTED * _FIELDS) + 1, _FIELDS):
        name, kind, shape, size, shown = fields[start : start + _FIELDS]
        item = {
            "name": _printable(name, MAX_NAME),
            "type": _printable(kind, MAX_NAME),
            "shape": _printable(shape, MAX_NAME),
            "size": _number(size),
            "shown": _printable(shown, MAX_LOOKED_AT, "\n\t") if is_single else _printable(shown, MAX_SHOWN),
        }
        left -= len(dumps(item))
        if left < 0:
            break
        items.append(item)
    items.sort(key=lambda item: (item["name"].casefold(), item["name"]))
    return {"items": items, "total": max(total, len(items))}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _printable(text: str, room: int, allowed: str = "") -> str:
    """Return the beginning of a text, in which control characters and the like are escaped."""
    beginning = text[:room]
    if not beginning.isprintable():
        beginning = "".join(
            sign if sign.isprintable() or sign in allowed else sign.encode("unicode_escape").decode()
            for sign in beginning
        )
    return beginning if len(beginning) <= room and len(text) <= room else f"{beginning[: room - 1]}…"
