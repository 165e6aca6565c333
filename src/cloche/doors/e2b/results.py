"""What happens in a run, as the lines that E2B's code interpreter tells of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from json import loads
from typing import Any

from cloche.doors.e2b.answers import line
from cloche.model.kinds import kind_of
from cloche.model.result import CHART, TABLE
from cloche.service.events import Happened

# Where a client looks for each form; what is not here it finds in `extra`, under its own name.
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
_PATIENCE = 4
_AXES = ("x_label", "y_label", "x_unit", "y_unit")
_SCALES = ("x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale")


class Telling:
    """Turns the events of one run into lines; a line of output that comes in pieces at once is told as one."""

    def __init__(self) -> None:
        self._stream = self._text = ""  # output that has not ended its line
        self._waited = 0

    @property
    def is_unfinished(self) -> bool:
        """Is there the beginning of a line?"""
        return bool(self._text)

    def waits(self) -> bool:
        """May whoever listens be kept waiting for more of it?  A few times."""
        self._waited += 1
        return self._waited <= _PATIENCE

    def tell(self, happened: Iterable[Happened]) -> bytes:
        """What there is to say of events, but for the beginning of a line at their end."""
        return b"".join(map(self._tell, happened))

    def rest(self) -> bytes:
        """That beginning: nothing more of it has come."""
        if not self._text:
            return b""
        stream, text, self._text, self._waited = self._stream, self._text, "", 0
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return line({"type": stream, "text": text, "timestamp": now})

    def _tell(self, happened: Happened) -> bytes:
        kind = happened.kind
        if kind in ("stdout", "stderr"):
            before = self.rest() if kind != self._stream else b""
            self._stream, self._text = kind, self._text + loads(happened.data)["text"]
            return before + self.rest() if self._text.endswith("\n") else before
        if kind == "result":
            return self.rest() + line(result(loads(happened.data)["result"]))
        if kind == "error":
            return self.rest() + line(error(loads(happened.data)["error"]))
        return b""


def result(shown: dict[str, Any]) -> dict[str, Any]:
    """Something displayed, in every form that it has."""
    told: dict[str, Any] = {"type": "result", "is_main_result": bool(shown.get("is_main")), "extra": {}}
    for mime, value in shown["mime"].items():
        field = _FIELDS.get(mime)
        if mime == TABLE:
            table = data(value)
            if table is not None:
                told["data"] = table
        elif field is None:
            told["extra"][mime] = value
        elif field == "text":
            told[field] = unquoted(value)
        elif field == "chart":
            told[field] = chart(value)
        elif field in _PICTURES and isinstance(value, str):
            told[field] = value.replace("\n", "")
        else:
            told[field] = value
    return told


def unquoted(text: Any) -> Any:
    """A text without the quotes that Python shows it in."""
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def data(table: dict[str, Any]) -> dict[str, list[Any]] | None:
    """A table by columns; nothing when it is not the whole table."""
    if table.get("truncated"):
        return None
    names = [column["name"] for column in table["columns"]]
    return {name: [row[at] for row in table["rows"]] for at, name in enumerate(names)}


def chart(shown: dict[str, Any]) -> dict[str, Any]:
    """A chart with every key that a client expects of its kind; what ours has beyond them stays."""
    kind = shown.get("type")
    told: dict[str, Any] = {"title": None, "elements": [], **shown}
    if kind == "superchart":
        told["elements"] = [chart(one) for one in told["elements"]]
    elif kind in ("line", "scatter", "bar", "box_and_whisker"):
        wanted = (*_AXES, *_SCALES) if kind in ("line", "scatter") else _AXES
        told = {**dict.fromkeys(wanted), **told}
    return told


def error(told: dict[str, Any]) -> dict[str, Any]:
    """Why a cell did not succeed: what it raised, or what became of it."""
    name = told.get("name")
    if name:
        return {"type": "error", "name": name, "value": told["message"], "traceback": told.get("traceback") or ""}
    value = f"{told['message']} {told.get('hint') or ''}".strip()
    return {"type": "error", "name": kind_of(told["kind"]).e2b, "value": value, "traceback": value}
