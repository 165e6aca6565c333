"""The events of a run as the lines that E2B's code interpreter sends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from cloche.doors.e2b.answers import line
from cloche.doors.faults import for_client
from cloche.doors.json_pieces import json_pieces
from cloche.errors import ClocheError
from cloche.json_text import to_json
from cloche.model.events import Failed, Shown
from cloche.model.kinds import kind_of
from cloche.model.result import CHART, TABLE, Display, Error
from cloche.results.fields import in_words_of
from cloche.service.event_log import PIECE, LogEntry
from cloche.service.events import NoResult, OutputPiece

# The field in which clients look for each form; other forms go into `extra`, under their MIME types.
_FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    CHART: "chart",
}
_PICTURES = ("png", "jpeg", "pdf")
_LONG = 64 << 10  # characters of a line that are not kept until it is complete
_PATIENCE = 4
_LARGE = 2 << 20  # characters
_AXES = ("x_label", "y_label", "x_unit", "y_unit")
_SCALES = ("x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale")


class ExecutionLines:
    """Turns the events of one run into lines; a line of output that comes in several pieces is sent as one."""

    def __init__(self, ends_apart: bool = False) -> None:
        self._stream = self._text = ""  # the incomplete line of output
        self._ends_apart = ends_apart  # the end of a line is a piece of its own, as E2B's Java kernel sends it
        self._waited = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the last line of output is incomplete."""
        return bool(self._text)

    def waits(self) -> bool:
        """Return whether to wait for more of that line; true only a few times in a row."""
        self._waited += 1
        return self._waited <= _PATIENCE

    def of(self, entries: Iterable[LogEntry]) -> Iterator[bytes]:
        """Return the lines for some events in pieces, without an incomplete line of output at their end."""
        parts: list[bytes] = []
        for entry in entries:
            parts.append(self._lines(entry))
            if isinstance(entry.event, Shown):
                for piece in _display(entry):
                    parts.append(piece.encode())
                    if len(piece) >= PIECE // 2:
                        yield b"".join(parts)
                        parts = []
                parts.append(b"\n")
        yield b"".join(parts)

    def rest(self) -> bytes:
        """Return the incomplete line of output, and forget it."""
        if not self._text:
            return b""
        stream, text, self._text, self._waited = self._stream, self._text, "", 0
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        pieces = (text[:-1], "\n") if self._ends_apart and len(text) > 1 and text.endswith("\n") else (text,)
        return b"".join(line({"type": stream, "text": piece, "timestamp": now}) for piece in pieces)

    def _lines(self, entry: LogEntry) -> bytes:
        event = entry.event
        if isinstance(event, OutputPiece):
            before = self.rest() if event.kind != self._stream else b""
            self._stream, self._text = event.kind, self._text + event.whole.decode(errors="replace")
            return before + self.rest() if self._text.endswith("\n") or len(self._text) > _LONG else before
        if isinstance(event, Shown):
            return self.rest()  # `of` writes the display, which may be large
        if isinstance(event, Failed):
            return self.rest() + line(error(event.error))
        if isinstance(event, NoResult):
            return self.rest() + line(error(event.problem))
        return b""


def _display(entry: LogEntry) -> Iterator[str]:
    """The display of an event, at once unless it is very large."""
    assert isinstance(entry.event, Shown)
    fields = result(entry.event.result)
    if entry.size > _LARGE:
        yield from json_pieces(fields)
    else:
        yield to_json(fields)


def result(shown: Display) -> dict[str, Any]:
    """Return a display, in all its forms."""
    fields: dict[str, Any] = {"type": "result", "is_main_result": shown.is_main, "extra": {}}
    for mime, value in shown.mime.items():
        field = _FIELDS.get(mime)
        if mime == TABLE:
            table = data(value)
            if table is not None:
                fields["data"] = table
        elif field is None:
            fields["extra"][mime] = value
        elif field == "text":
            fields[field] = unquoted(value)
        elif field == "chart":
            fields[field] = chart(value)
        elif field in _PICTURES and isinstance(value, str):
            fields[field] = value.replace("\n", "")
        else:
            fields[field] = value
    return fields


def unquoted(text: Any) -> Any:
    """Remove the quotes of a Python repr."""
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def data(table: dict[str, Any]) -> dict[str, list[Any]] | None:
    """Return a table by columns, or None if the table was truncated."""
    if table.get("truncated"):
        return None
    names = [column["name"] for column in table["columns"]]
    return {name: [row[at] for row in table["rows"]] for at, name in enumerate(names)}


def chart(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a chart with every key that clients expect of its type; our additional keys remain."""
    kind = shown.get("type")
    fields: dict[str, Any] = {"title": None, "elements": [], **shown}
    if kind == "superchart":
        fields["elements"] = [chart(one) for one in fields["elements"]]
    elif kind in ("line", "scatter", "bar", "box_and_whisker"):
        expected = (*_AXES, *_SCALES) if kind in ("line", "scatter") else _AXES
        fields = {**dict.fromkeys(expected), **fields}
    return fields


def error(problem: Error | ClocheError) -> dict[str, Any]:
    """Return the reason why a cell failed: its exception, a limit, or a problem of the server."""
    if isinstance(problem, Error) and problem.name:
        traceback = problem.traceback or ""
        return {"type": "error", "name": problem.name, "value": problem.message, "traceback": traceback}
    kind = problem.kind if isinstance(problem, Error) else problem.code
    problem = for_client(problem, "e2b") if isinstance(problem, ClocheError) else in_words_of("e2b", problem)
    value = f"{problem.message} {problem.hint}".strip()
    return {"type": "error", "name": kind_of(kind).e2b, "value": value, "traceback": value}
