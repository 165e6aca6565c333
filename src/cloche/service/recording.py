"""Cuts a result for the store: small parts are kept whole, large ones only up to a limit."""

from __future__ import annotations

from typing import Any

from cloche.json_text import to_json
from cloche.model.result import Result
from cloche.results.fields import result_fields
from cloche.service.event_log import characters_in, characters_of

MAX_RECORDED = 64 << 10  # characters of a whole result, or of each stream of a result that is cut
MAX_DISPLAYED = 4 * MAX_RECORDED  # characters of all displays
_SUMMARY = 1000  # characters of the text that stands for a display that is left out


def recorded(result: Result, run_id: str, context: str) -> tuple[str, bool]:
    """Return the JSON of a result for the store, and whether it is complete.

    Sizes are estimated first, so that a large chart is not encoded only to be thrown away.
    """
    if characters_of(result, MAX_RECORDED) <= MAX_RECORDED:
        text = to_json(result_fields(result, run_id, context))
        if len(text) <= MAX_RECORDED:
            return text, True
    small = result.replace(stdout_bytes=b"", stderr_bytes=b"", logs=(), tool_calls=())
    return to_json(_cut(result_fields(small, run_id, context))), False


def _cut(fields: dict[str, Any]) -> dict[str, Any]:
    for stream in ("stdout", "stderr"):
        if len(fields[stream]) > MAX_RECORDED:
            fields[stream] = fields[stream][:MAX_RECORDED]
            fields["truncated"] = True
    room = MAX_DISPLAYED
    for shown in fields["results"]:
        shown["mime"] = dict(shown["mime"])  # copied, because the dictionary belongs to the result
        for mime, value in list(shown["mime"].items()):
            room -= characters_in(value, MAX_DISPLAYED)
            if room < 0:
                shown["mime"][mime] = None if mime != "text/plain" else str(value)[:_SUMMARY]
                fields["truncated"] = True
    if fields["error"] is not None:
        fields["error"]["traceback_ansi"] = None
        if characters_in(fields["error"]["raised"], MAX_RECORDED) > MAX_RECORDED:
            fields["error"]["raised"] = []
        for name in ("message", "traceback"):
            if fields["error"][name] is not None:
                fields["error"][name] = fields["error"][name][:MAX_RECORDED]
    return fields
