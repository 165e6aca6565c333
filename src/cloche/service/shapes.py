"""Results and events as JSON: one form for HTTP, WebSocket and MCP; `cloche.client.shapes` reads it back."""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from json import dumps
from math import isfinite
from typing import Any

from cloche.errors import ClocheError, FileProblem
from cloche.model.events import Building, CellEvent, Cleared, End, Event, Exit, Failed, Output, Shown, Started
from cloche.model.files import Entry
from cloche.model.history import Best, FileChanges, Moment, Restored, VariableChanges
from cloche.model.plain import Plain
from cloche.model.result import Error, Result
from cloche.store.quick_json import quick_json

_utf8 = getincrementaldecoder("utf-8")
_ATOMS = frozenset((str, int, float, bool, type(None)))
_OF_RESULT = tuple(name for name in Result._fields if not name.endswith("_bytes"))


def to_json(value: Any) -> str:
    """JSON that every reader takes: numbers that are none are null, odd bytes in names are lone surrogates."""
    told = quick_json(value)
    if told is not None:
        return told
    try:
        return dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return dumps(_without_nan(value), separators=(",", ":"))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value


def plain(value: Any) -> Any:
    """Plain data, and what it holds, as JSON has it."""
    if isinstance(value, Plain):
        return _by_name(value, value._fields)
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def _by_name(value: Plain, names: tuple[str, ...]) -> dict[str, Any]:
    told = {}
    for name in names:
        field = getattr(value, name)
        told[name] = field if type(field) in _ATOMS else plain(field)
    return told


def result_json(result: Result, run_id: str = "", context: str = "") -> dict[str, Any]:
    """A result."""
    told = _by_name(result, _OF_RESULT)
    told.update(run_id=run_id, context=context, text=result.text)
    for stream, data in (("stdout", result.stdout_bytes), ("stderr", result.stderr_bytes)):
        if data and not _is_text(data):
            told[f"{stream}_base64"] = b64encode(data).decode()
    return told


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
    """The pictures among what was displayed, one form each."""
    found = []
    for shown in result.results:
        for mime in ("image/png", "image/jpeg"):
            if isinstance(shown.mime.get(mime), str):
                found.append({"mime": mime, "data": shown.mime[mime].replace("\n", "")})
                break
    return found


def error_json(error: Error) -> dict[str, Any]:
    """Why a run did not succeed."""
    told: dict[str, Any] = plain(error)
    return told


def problem_json(problem: ClocheError) -> dict[str, Any]:
    """Why there is no result."""
    details = {"errno": problem.errno} if isinstance(problem, FileProblem) else {}
    return {"kind": problem.code, "message": problem.message, "hint": problem.hint, "details": details}


def entry_json(entry: Entry) -> dict[str, Any]:
    """A file."""
    told: dict[str, Any] = plain(entry)
    return told


class Telling:
    """Turns the events of one run into JSON; a character is never split between two of them."""

    def __init__(self, run_id: str, context: str = "") -> None:
        self._run_id, self._context = run_id, context
        self._held = {"stdout": b"", "stderr": b""}  # the beginning of a character whose rest is to come

    def tell(self, event: Event | CellEvent) -> list[tuple[str, dict[str, Any]]]:
        """The kind and contents of what there is to say of it: mostly one thing, sometimes none."""
        if isinstance(event, Output):
            return self._output(event.kind, event.data)
        if isinstance(event, Started):
            return [("started", {"run_id": self._run_id, "pid": event.pid})]
        if isinstance(event, Building):
            return [("building", {"step": event.step})]
        if isinstance(event, Shown):
            return [("result", {"result": plain(event.result), "update": event.update})]
        if isinstance(event, Cleared):
            return [("clear", {})]
        if isinstance(event, Failed):
            return [*self.rest(), ("error", {"error": error_json(event.error)})]
        assert isinstance(event, End | Exit)
        return [*self.rest(), (event.kind, {"result": result_json(event.result, self._run_id, self._context)})]

    def rest(self) -> list[tuple[str, dict[str, Any]]]:
        """What is left of characters that were never finished."""
        left = [(stream, _piece(held)) for stream, held in self._held.items() if held]
        self._held = {"stdout": b"", "stderr": b""}
        return left

    def _output(self, stream: str, data: bytes) -> list[tuple[str, dict[str, Any]]]:
        data = self._held[stream] + data
        self._held[stream] = b""
        decoder = _utf8("replace")
        decoder.decode(data)
        unfinished = decoder.getstate()[0]
        if unfinished:
            self._held[stream], data = unfinished, data[: -len(unfinished)]
        return [(stream, _piece(data))] if data else []


def _piece(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"text": data.decode(errors="replace"), "data": b64encode(data).decode()}


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def moment_json(moment: Moment) -> dict[str, Any]:
    """An entry of a session's history."""
    told: dict[str, Any] = plain(moment)
    return told


def restored_json(restored: Restored) -> dict[str, Any]:
    """What became of a session that was restored."""
    told: dict[str, Any] = plain(restored)
    return told


def changes_json(files: FileChanges, variables: VariableChanges) -> dict[str, Any]:
    """What an attempt has changed."""
    return {"files": plain(files), "variables": plain(variables)}


def best_json(best: Best) -> dict[str, Any]:
    """What came of several candidates."""
    return {
        "index": best.index,
        "candidates": [
            {"code": one.code, "result": result_json(one.result), "score": one.score} for one in best.candidates
        ],
    }
