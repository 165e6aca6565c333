"""Assembles the displays of a cell from their pieces.  The kernel is not trusted, so every size has a limit."""

from __future__ import annotations

from cloche.model.events import CellEvent, Cleared, Shown
from cloche.model.result import Display
from cloche.wire.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DISPLAYS = 1000  # per cell
MAX_DISPLAYED = 64 << 20  # bytes of all displays of one cell
MAX_VALUES = 2_000_000  # values in all displays: a list of empty lists takes twenty times the memory of its JSON
_VALUE = 8  # characters that a value counts for besides its text


class CellDisplays:
    """The displays of one cell, and the exception that ended it."""

    def __init__(self) -> None:
        self._displays: list[Display] = []
        self.error: dict[str, Any] | None = None  # the kernel's description of the exception
        self.cut = False  # whether the result lacks something
        self.message: bytearray | None = None  # a complete message that was not taken yet
        self._weight = 0  # its size, and more for each value in it
        self._pieces = bytearray()  # those of the next message so far
        self._size = self._values = 0

    @property
    def displays(self) -> list[Display]:
        """The displays in order, without placeholders for updates that never came."""
        return [shown for shown in self._displays if shown.mime]

    def add(self, piece: bytes) -> None:
        """Add a piece of a message, whose first byte is 1 for the last; the whole is `message` until it is taken."""
        self._size += len(piece)
        if self._size > MAX_DISPLAYED:
            self.cut = True
            self._pieces.clear()
            return
        self._pieces += piece[1:]
        if piece[:1] != b"\1":
            return
        text, self._pieces = self._pieces, bytearray()
        values = text.count(b",") + text.count(b"[") + text.count(b"{")
        self._values += values
        if self._values > MAX_VALUES:
            self.cut = True
        else:
            self.message, self._weight = text, len(text) + _VALUE * values

    def take(self, message: dict[str, Any]) -> CellEvent | None:
        """Take the complete message, which was read; return its event."""
        self.message = None
        kind = message.get("type")
        if kind == "error":
            self.error = message
        elif kind == "clear":
            return Cleared()  # for clients that show displays live; the result keeps every plot
        elif kind in ("result", "display"):
            return self._display(message)
        return None

    def _display(self, message: dict[str, Any]) -> CellEvent | None:
        data, metadata, identity = message.get("data"), message.get("metadata"), message.get("display_id")
        is_update = bool(message.get("update"))
        if not isinstance(data, dict) or (not data and (is_update or not isinstance(identity, str))):
            return None
        if len(self._displays) >= MAX_DISPLAYS:
            self.cut = True
            return None
        shown = Display(
            mime=data,
            metadata=metadata if isinstance(metadata, dict) else {},
            is_main=message["type"] == "result",
            display_id=identity if isinstance(identity, str) else None,
        ).sized(self._weight)
        if not is_update:
            self._displays.append(shown)
            return Shown(shown) if data else None  # empty data reserves a place: display(display_id=True)
        for number, earlier in enumerate(self._displays):
            if earlier.display_id is not None and earlier.display_id == shown.display_id:
                is_update = is_update and bool(earlier.mime)
                self._displays[number] = shown
        return Shown(shown, update=is_update)


def read_message(text: bytearray) -> dict[str, Any]:
    """Read a kernel's message; one that makes no sense harms only its own results, and is empty."""
    try:
        message = loads(text.decode())
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
