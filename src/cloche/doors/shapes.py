"""Results, events and other answers as JSON: one form for HTTP, WebSocket and the pages.

`cloche.client.shapes` reads it back.  A display (a chart, a picture, a table) is encoded by itself, and its text is
used again wherever it occurs: in the event that shows it, and in the result at the end.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from cloche.errors import ClocheError, FileProblem
from cloche.json_text import to_json
from cloche.model.events import Building, Cleared, Exit, Failed, Shown, Started
from cloche.model.history import Best, FileChanges, VariableChanges
from cloche.model.result import Display, Result
from cloche.results.fields import plain, result_fields
from cloche.service.event_log import EventLog, LogEntry
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

_FORM = "json"  # the name under which a log keeps our texts

# --- events


def event_json(log: EventLog, entry: LogEntry) -> str:
    """An event of a log; an empty text for one that has nothing to say yet, such as half a character."""
    event = entry.event
    if isinstance(event, OutputPiece) and not event.whole:
        return ""
    if isinstance(event, Shown) or (isinstance(event, OfRun) and isinstance(event.event, Shown)):
        return _event_json(log, entry)  # nearly all of it is the display, which is kept
    return log.encoded(event, _FORM, lambda: _event_json(log, entry))


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
        return f'{{"result":{display_json(log, event.result)},"update":{update}}}'
    if isinstance(event, RunEnded):
        return f'{{"result":{result_json(log, event)}}}'
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


def result_json(log: EventLog, ended: RunEnded) -> str:
    """The result of a run, with the displays as they were encoded for its events."""
    if ended.recorded:
        return ended.recorded
    rest = result_fields(ended.result.replace(results=()), ended.run_id, ended.context)
    del rest["results"]
    rest["text"] = ended.result.text
    return _merged(to_json(rest), f'{{"results":{displays_json(log, ended.result.results)}}}')


def displays_json(log: EventLog, displays: Iterable[Display]) -> str:
    """A list of displays."""
    return f"[{','.join(display_json(log, display) for display in displays)}]"


def display_json(log: EventLog, display: Display) -> str:
    """A display, encoded once while anybody reads the log of its run."""
    return log.encoded(display, _FORM, lambda: to_json(plain(display)))


def _merged(first: str, second: str) -> str:
    """Two JSON objects as one, without reading them again."""
    return first if second == "{}" else f"{first[:-1]},{second[1:]}"


def model_json(result: Result, run_id: str, budget: int) -> dict[str, Any]:
    """A result as a model should read it, with the pictures beside the text."""
    return {
        "run_id": run_id,
        "view": "model",
        "text": result.for_model(budget),
        "images": images(result),
        "exit_code": result.exit_code,
        "error": plain(result.error),
        "artifacts": plain(result.artifacts),
    }


def images(result: Result) -> list[dict[str, str]]:
    """The pictures among the displays, each in one format."""
    found = []
    for shown in result.results:
        for mime in ("image/png", "image/jpeg"):
            if isinstance(shown.mime.get(mime), str):
                found.append({"mime": mime, "data": shown.mime[mime].replace("\n", "")})
                break
    return found


def problem_json(problem: ClocheError) -> dict[str, Any]:
    """The reason why there is no result."""
    details = {"errno": problem.errno} if isinstance(problem, FileProblem) else {}
    return {"kind": problem.code, "message": problem.message, "hint": problem.hint, "details": details}


# --- attempts


def attempt_json(attempt: AttemptEnded) -> dict[str, Any]:
    """An attempt that waits for a decision."""
    changes = changes_json(attempt.files, attempt.variables)
    return {"id": attempt.id, "result": result_fields(attempt.result, attempt.run_id), **changes}


def changes_json(files: FileChanges, variables: VariableChanges) -> dict[str, Any]:
    """The files and variables that an attempt has changed."""
    return {"files": plain(files), "variables": plain(variables)}


def best_json(best: Best) -> dict[str, Any]:
    """The candidates of a contest, and which of them won."""
    return {
        "index": best.index,
        "candidates": [
            {"code": one.code, "result": result_fields(one.result), "score": one.score} for one in best.candidates
        ],
    }
