"""Results, events and other answers as JSON: one form for HTTP, WebSocket and the pages.

`cloche.client.shapes` reads it back.  A small event and a display (a chart, a picture, a table) are encoded once for
all clients that read them.  Other large events are written piece by piece for each client: a client that reads slowly
then keeps a piece in memory, and not a whole text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from cloche.doors.faults import for_client
from cloche.doors.json_pieces import FORM, ResultView, display_text, json_pieces
from cloche.doors.pictures import note_about, shown_pictures
from cloche.errors import ClocheError, FileProblem
from cloche.json_text import to_json
from cloche.model.events import Building, Cleared, Exit, Failed, Shown, Started, Waiting
from cloche.model.history import Best, FileChanges, VariableChanges
from cloche.model.result import Result
from cloche.results.fields import plain, result_fields, result_in_words_of
from cloche.service.event_log import PIECE, EventLog, LogEntry
from cloche.service.events import (
    AttemptEnded,
    ContestEnded,
    Gap,
    LoggedEvent,
    NoResult,
    Notice,
    OfCommand,
    OfRun,
    OutputPiece,
    RunEnded,
    RunStarted,
    ScoreRequested,
    ToolRequested,
)

_LARGE = PIECE + (1 << 10)  # characters of an event that is written piece by piece: more than any piece of output

# --- events


def event_pieces(log: EventLog, entry: LogEntry) -> Iterator[str]:
    """An event of a log, in pieces; none for one that has nothing to say yet, such as half a character."""
    if entry.size > _LARGE:
        yield from json_pieces(_large(entry), log)
    elif text := event_json(log, entry):
        yield text


def wrapped(before: str, pieces: Iterator[str], after: str = "", *, cut: int = 0) -> Iterator[str]:
    """Pieces with a text before and after them, without the first `cut` characters; none if there are none."""
    last = next(pieces, None)
    if last is None:
        return
    last = before + last[cut:]
    for piece in pieces:
        yield last
        last = piece
    yield last + after


def event_json(log: EventLog, entry: LogEntry) -> str:
    """An event that is not large; an empty text for one that has nothing to say yet."""
    event = entry.event
    if isinstance(event, OutputPiece) and not event.whole:
        return ""
    if isinstance(event, Shown):
        return _contents(log, event)  # nearly all of it is the display, which is shared
    return log.encoded(event, FORM, lambda: _event_json(log, entry)).text


def _large(entry: LogEntry) -> dict[str, Any]:
    """The fields of an event; what is large in them is not encoded."""
    event = entry.event
    about: dict[str, Any] = {}
    if isinstance(event, OfRun):
        about = {"kind": event.kind, "time": entry.time, "run_id": event.run_id}
        if event.code:
            about["code"] = event.code
        event = event.event
    elif isinstance(event, OfCommand):
        about = {"kind": event.kind, "time": entry.time, "command_id": event.command_id}
        event = event.event
    if isinstance(event, Notice):
        return {"kind": event.kind, "time": entry.time, **event.fields}
    if isinstance(event, Shown):
        return {**about, "result": event.result, "update": event.update}
    if isinstance(event, RunEnded):
        return {**about, "result": ResultView(event.result, event.run_id, event.context)}
    if isinstance(event, Exit):
        return {**about, "result": ResultView(event.result)}
    if isinstance(event, ScoreRequested):
        return {**about, "call": event.call, "result": ResultView(event.result, event.run_id)}
    if isinstance(event, Failed):
        return {**about, "error": event.error}
    if isinstance(event, AttemptEnded):
        return {**about, "attempt": attempt_view(event)}
    if isinstance(event, ContestEnded):
        return {**about, "best": best_view(event.best)}
    return {**about, **_fields(event)}


def _event_json(log: EventLog, entry: LogEntry) -> str:
    event = entry.event
    if isinstance(event, Notice):
        return to_json({"kind": event.kind, "time": entry.time, **event.fields})
    if isinstance(event, OfRun):
        about: dict[str, Any] = {"kind": event.kind, "time": entry.time, "run_id": event.run_id}
        if event.code:
            about["code"] = event.code
        return _merged(to_json(about), _contents(log, event.event))
    if isinstance(event, OfCommand):
        about = {"kind": event.kind, "time": entry.time, "command_id": event.command_id}
        return _merged(to_json(about), _contents(log, event.event))
    return _contents(log, event)


def _contents(log: EventLog, event: LoggedEvent) -> str:
    if isinstance(event, Shown):
        update = "true" if event.update else "false"
        return f'{{"result":{display_text(log, event.result).text},"update":{update}}}'
    if isinstance(event, RunEnded):
        return f'{{"result":{event.recorded or to_json(result_fields(event.result, event.run_id, event.context))}}}'
    return to_json(_fields(event))


def _fields(event: LoggedEvent) -> dict[str, Any]:
    if isinstance(event, OutputPiece):
        return _text_fields(event.whole)
    if isinstance(event, RunStarted):
        return {"run_id": event.run_id, "pid": event.pid}
    if isinstance(event, Started):
        return {"pid": event.pid}
    if isinstance(event, Building):
        return {"step": event.step}
    if isinstance(event, Waiting):
        return {"waiting": event.waiting}
    if isinstance(event, Failed):
        return {"error": plain(event.error)}
    if isinstance(event, NoResult):
        return {"error": problem_json(event.problem)}
    if isinstance(event, Exit):
        return {"result": result_fields(event.result)}
    if isinstance(event, ToolRequested):
        return {"call": event.call, "name": event.name, "args": event.args, "kwargs": event.kwargs}
    if isinstance(event, ScoreRequested):
        return {"call": event.call, "result": result_fields(event.result, event.run_id)}
    if isinstance(event, AttemptEnded):
        return {"attempt": attempt_json(event)}
    if isinstance(event, ContestEnded):
        return {"best": best_json(event.best)}
    if isinstance(event, Gap):
        return {"from": event.first, "to": event.last}
    assert isinstance(event, Cleared), event
    return {}


def _text_fields(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"text": data.decode(errors="replace"), "data": b64encode(data).decode()}


# --- results


def result_pieces(log: EventLog, ended: RunEnded) -> Iterator[str]:
    """The result of a run, in pieces."""
    if ended.recorded:
        yield ended.recorded
    else:
        yield from json_pieces(ResultView(ended.result, ended.run_id, ended.context), log)


def _merged(first: str, second: str) -> str:
    """Two JSON objects as one, without reading them again."""
    return first if second == "{}" else f"{first[:-1]},{second[1:]}"


def model_json(result: Result, run_id: str, budget: int) -> dict[str, Any]:
    """A result as a model should read it, with the pictures beside the text."""
    text, images = text_and_images(result, budget)
    return {
        "run_id": run_id,
        "view": "model",
        "text": text,
        "images": images,
        "exit_code": result.exit_code,
        "error": plain(result.error),
        "artifacts": plain(result.artifacts),
    }


def text_and_images(result: Result, budget: int) -> tuple[str, list[dict[str, str]]]:
    """The text of a result for a model, and its pictures."""
    pictures, left_out = shown_pictures(result)
    return result_in_words_of("http", result).for_model(budget) + note_about(left_out), [
        one._asdict() for one in pictures
    ]


def problem_json(problem: ClocheError) -> dict[str, Any]:
    """The reason why there is no result."""
    problem = for_client(problem)
    details = {"errno": problem.errno} if isinstance(problem, FileProblem) else {}
    return {"kind": problem.code, "message": problem.message, "hint": problem.hint, "details": details}


# --- attempts


def attempt_json(attempt: AttemptEnded) -> dict[str, Any]:
    """An attempt that waits for a decision."""
    return {**attempt_view(attempt), "result": result_fields(attempt.result, attempt.run_id)}


def attempt_view(attempt: AttemptEnded) -> dict[str, Any]:
    """The same for `json_pieces`."""
    changes = changes_json(attempt.files, attempt.variables)
    return {"id": attempt.id, "result": ResultView(attempt.result, attempt.run_id), **changes}


def changes_json(files: FileChanges, variables: VariableChanges) -> dict[str, Any]:
    """The files and variables that an attempt has changed."""
    return {"files": plain(files), "variables": plain(variables)}


def best_json(best: Best) -> dict[str, Any]:
    """The candidates of a contest, and which of them won."""
    candidates = [{**one, "result": result_fields(tried.result)} for one, tried in _tried(best)]
    return {"index": best.index, "candidates": candidates}


def best_view(best: Best) -> dict[str, Any]:
    """The same for `json_pieces`."""
    candidates = [{**one, "result": ResultView(tried.result)} for one, tried in _tried(best)]
    return {"index": best.index, "candidates": candidates}


def _tried(best: Best) -> Iterator[tuple[dict[str, Any], Any]]:
    for one in best.candidates:
        yield {"code": one.code, "score": one.score}, one
