"""From the server's JSON to the words of `model/`, and the other way round; its inverse is in `doors/http`."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from json import dumps
from urllib.parse import quote

from cloche import errors
from cloche.errors import ClocheError, FileProblem, Refused, SandboxFailed
from cloche.model.events import Building, CellEvent, Cleared, End, Event, Exit, Failed, Output, Shown, Started
from cloche.model.files import Entry
from cloche.model.history import Best, Candidate, FileChanges, Moment, Restored, Variable, VariableChanges
from cloche.model.limits import Limits
from cloche.model.plain import Plain
from cloche.model.result import Artifact, Diagnostic, Display, Error, Log, Result, ToolCall, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.files import Mount
    from cloche.sandbox.checks import Data

_ERRORS = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClocheError)
}
_SHORT = 64 << 10  # bytes
_KEY_HINT = "Set CLOCHE_API_KEY, or pass api_key=; `cloche key` makes one, on the server."


# What is told


def result(told: dict[str, Any]) -> Result:
    """What a run came to."""
    out, err = told["stdout"], told["stderr"]
    return Result(
        stdout=out,
        stderr=err,
        exit_code=told["exit_code"],
        duration=float(told["duration"]),
        cpu_time=float(told["cpu_time"]),
        memory_peak=told["memory_peak"],
        error=None if told.get("error") is None else run_error(told["error"]),
        truncated=told["truncated"],
        stdout_bytes=_bytes(out, told.get("stdout_base64")),
        stderr_bytes=_bytes(err, told.get("stderr_base64")),
        wall=told["wall"],
        results=tuple(map(display, told.get("results") or ())),
        logs=tuple(Log(log["stream"], log["text"], log["time"]) for log in told.get("logs") or ()),
        artifacts=tuple(Artifact(file["path"], file["size"], file["mime"]) for file in told.get("artifacts") or ()),
        execution_count=told.get("execution_count"),
        tool_calls=tuple(ToolCall(**_fields(ToolCall, call)) for call in told.get("tool_calls") or ()),
        restarted=bool(told.get("restarted")),
        diagnostics=tuple(Diagnostic(**_fields(Diagnostic, each)) for each in told.get("diagnostics") or ()),
        build_time=told.get("build_time"),
    )


def run_error(told: dict[str, Any]) -> Error:
    """Why a run did not succeed."""
    return Error(
        told["kind"],
        told["message"],
        told.get("hint") or "",
        told.get("name"),
        told.get("traceback"),
        told.get("traceback_ansi"),
    )


def display(told: dict[str, Any]) -> Display:
    """Something that a cell has shown."""
    return Display(told["mime"], told.get("metadata") or {}, bool(told.get("is_main")), told.get("display_id"))


def cell_event(kind: str, told: dict[str, Any]) -> CellEvent | None:
    """What happens in a cell; None for what is no event of its own."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(told["text"], told.get("data")))
    if kind == "result":
        return Shown(display(told["result"]), bool(told.get("update")))
    if kind == "started":
        return Started(told.get("pid") or 0)
    if kind == "clear":
        return Cleared()
    if kind == "error":
        return Failed(run_error(told["error"]))
    return End(result(told["result"])) if kind == "end" else None


def command_event(kind: str, told: dict[str, Any]) -> Event | None:
    """What happens to a program."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(told["text"], told.get("data")))
    if kind == "started":
        return Started(told["pid"])
    if kind == "building":
        return Building(told["step"])
    return Exit(result(told["result"])) if kind in ("exit", "end") else None


def entry(told: dict[str, Any]) -> Entry:
    """A file, folder or link."""
    return Entry(**_fields(Entry, told))


def limits(told: dict[str, Any]) -> Limits:
    """What a sandbox may use."""
    names = ("timeout", "memory", "cpu", "disk", "processes", "output")
    known = {name: told[name] for name in names}
    return Limits.of(**known, build_timeout=told.get("build_timeout", 60))


def usage(told: dict[str, Any]) -> Usage:
    """What a sandbox uses."""
    return Usage(**_fields(Usage, told))


def moment(told: dict[str, Any]) -> Moment:
    """An entry of the history."""
    return Moment(**_fields(Moment, told))


def restored(told: dict[str, Any]) -> Restored:
    """What could not be brought back."""
    return Restored(told["lost"], tuple(told["restarted"]), told["files"])


def file_changes(told: dict[str, Any]) -> FileChanges:
    """What an attempt has changed in the files."""
    return FileChanges(*(tuple(told[kind]) for kind in ("created", "changed", "removed")))


def variable_changes(told: dict[str, Any]) -> VariableChanges:
    """What an attempt has changed in the variables."""
    created, changed = (
        tuple(Variable(**_fields(Variable, one)) for one in told[kind]) for kind in ("created", "changed")
    )
    return VariableChanges(created, changed, tuple(told["removed"]))


def best(told: dict[str, Any]) -> Best:
    """What came of several candidates."""
    return Best(
        told["index"],
        tuple(Candidate(one["code"], result(one["result"]), one["score"]) for one in told["candidates"]),
    )


def error(status: int, told: Any, url: str = "") -> ClocheError:
    """The exception for an answer that tells an error."""
    if not isinstance(told, dict) or not isinstance(told.get("error"), dict):
        return SandboxFailed(f"{url} answers with the status {status}.", "Is it a Cloche server?")
    problem = told["error"]
    kind, message, hint = str(problem.get("kind")), str(problem.get("message")), str(problem.get("hint") or "")
    if kind == "unauthorized":
        return Refused(message, _KEY_HINT)
    if kind == "file":
        return FileProblem(message, hint, (problem.get("details") or {}).get("errno") or 0)
    if kind in _ERRORS:
        return _ERRORS[kind](message, hint)
    other = (Refused if status < 500 or kind == "busy" else SandboxFailed)(message, hint)
    other.code = kind
    return other


# What is asked for


def given(name: str, data: Data | None) -> dict[str, str]:
    """Input, as a text where it is a short one: `stdin`, or else `stdin_base64`."""
    if data is None:
        return {}
    try:
        if len(data) > _SHORT:
            return {f"{name}_base64": base64(data)}  # as a text it could be six times as long
        return {name: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64(data)}


def file(data: Data) -> str | dict[str, str]:
    """A file's contents, as a text where they are one."""
    told = given("text", data)
    return told["text"] if "text" in told else {"base64": told["text_base64"]}


def limits_asked(limits: Limits) -> dict[str, Any]:
    """Limits as the server reads them."""
    return {
        "timeout": limits.timeout_s,
        "memory": limits.memory_bytes,
        "cpu": limits.cpu,
        "disk": limits.disk_bytes,
        "processes": limits.processes,
        "output": limits.output_bytes,
        "build_timeout": limits.build_timeout_s,
    }


def mounts(given: tuple[Mount, ...]) -> list[dict[str, Any]]:
    """Folders of the server's host to be shown inside."""
    return [mount.as_dict() for mount in given]


def json(told: Any) -> bytes:
    """What is asked for, as it is sent; half characters, which UTF-8 has no form for, as JSON has them."""
    try:
        return dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return dumps(told, separators=(",", ":")).encode()


def base64(data: Data) -> str:
    """Bytes as a text."""
    return b2a_base64(data, newline=False).decode("ascii")


def quoted(text: str) -> str:
    """A text as one segment of a path, or one value of a query; bytes that are no text, too."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


def _bytes(text: str, data: str | None) -> bytes:
    return text.encode("utf-8", "surrogateescape") if data is None else a2b_base64(data)


def _fields(kind: type[Plain], told: dict[str, Any]) -> dict[str, Any]:
    """Those of a JSON object that plain data of the same names has."""
    return {name: told[name] for name in kind._fields if name in told}
