"""From the server's JSON to the classes of `model/`, and the other way round; its inverse is in `doors/http`."""

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


# Answers


def result(fields: dict[str, Any]) -> Result:
    """The result of a run."""
    out, err = fields["stdout"], fields["stderr"]
    return Result(
        stdout=out,
        stderr=err,
        exit_code=fields["exit_code"],
        duration=float(fields["duration"]),
        cpu_time=float(fields["cpu_time"]),
        memory_peak=fields["memory_peak"],
        error=None if fields.get("error") is None else run_error(fields["error"]),
        truncated=fields["truncated"],
        stdout_bytes=_bytes(out, fields.get("stdout_base64")),
        stderr_bytes=_bytes(err, fields.get("stderr_base64")),
        wall=fields["wall"],
        results=tuple(map(display, fields.get("results") or ())),
        logs=tuple(Log(log["stream"], log["text"], log["time"]) for log in fields.get("logs") or ()),
        artifacts=tuple(Artifact(file["path"], file["size"], file["mime"]) for file in fields.get("artifacts") or ()),
        execution_count=fields.get("execution_count"),
        tool_calls=tuple(ToolCall(**_fields(ToolCall, call)) for call in fields.get("tool_calls") or ()),
        restarted=bool(fields.get("restarted")),
        diagnostics=tuple(Diagnostic(**_fields(Diagnostic, each)) for each in fields.get("diagnostics") or ()),
        build_time=fields.get("build_time"),
    )


def run_error(fields: dict[str, Any]) -> Error:
    """Why a run did not succeed."""
    return Error(
        fields["kind"],
        fields["message"],
        fields.get("hint") or "",
        fields.get("name"),
        fields.get("traceback"),
        fields.get("traceback_ansi"),
    )


def display(fields: dict[str, Any]) -> Display:
    """A display of a cell."""
    return Display(fields["mime"], fields.get("metadata") or {}, bool(fields.get("is_main")), fields.get("display_id"))


def cell_event(kind: str, fields: dict[str, Any]) -> CellEvent | None:
    """An event of a cell; None for kinds that a cell does not have."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(fields["text"], fields.get("data")))
    if kind == "result":
        return Shown(display(fields["result"]), bool(fields.get("update")))
    if kind == "started":
        return Started(fields.get("pid") or 0)
    if kind == "clear":
        return Cleared()
    if kind == "error":
        return Failed(run_error(fields["error"]))
    return End(result(fields["result"])) if kind == "end" else None


def command_event(kind: str, fields: dict[str, Any]) -> Event | None:
    """An event of a program."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(fields["text"], fields.get("data")))
    if kind == "started":
        return Started(fields["pid"])
    if kind == "building":
        return Building(fields["step"])
    return Exit(result(fields["result"])) if kind in ("exit", "end") else None


def entry(fields: dict[str, Any]) -> Entry:
    """A file, folder or link."""
    return Entry(**_fields(Entry, fields))


def limits(fields: dict[str, Any]) -> Limits:
    """The limits of a sandbox."""
    names = ("timeout", "memory", "cpu", "disk", "processes", "output")
    known = {name: fields[name] for name in names}
    return Limits.of(**known, build_timeout=fields.get("build_timeout", 60))


def usage(fields: dict[str, Any]) -> Usage:
    """What a sandbox uses now."""
    return Usage(**_fields(Usage, fields))


def moment(fields: dict[str, Any]) -> Moment:
    """An entry of the history."""
    return Moment(**_fields(Moment, fields))


def restored(fields: dict[str, Any]) -> Restored:
    """The outcome of a restore."""
    return Restored(fields["lost"], tuple(fields["restarted"]), fields["files"])


def file_changes(fields: dict[str, Any]) -> FileChanges:
    """The changes of an attempt in the files."""
    return FileChanges(*(tuple(fields[kind]) for kind in ("created", "changed", "removed")))


def variable_changes(fields: dict[str, Any]) -> VariableChanges:
    """The changes of an attempt in the variables."""
    created, changed = (
        tuple(Variable(**_fields(Variable, one)) for one in fields[kind]) for kind in ("created", "changed")
    )
    return VariableChanges(created, changed, tuple(fields["removed"]))


def best(fields: dict[str, Any]) -> Best:
    """The outcome of several candidates."""
    return Best(
        fields["index"],
        tuple(Candidate(one["code"], result(one["result"]), one["score"]) for one in fields["candidates"]),
    )


def error(status: int, body: Any, url: str = "") -> ClocheError:
    """The exception for an answer that is an error."""
    if not isinstance(body, dict) or not isinstance(body.get("error"), dict):
        return SandboxFailed(f"{url} answers with the status {status}.", "Is it a Cloche server?")
    problem = body["error"]
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


# Requests


def data_field(name: str, data: Data | None) -> dict[str, str]:
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
    field = data_field("text", data)
    return field["text"] if "text" in field else {"base64": field["text_base64"]}


def limits_fields(limits: Limits) -> dict[str, Any]:
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


def json(value: Any) -> bytes:
    """A request's body; half characters, for which UTF-8 has no form, are escaped."""
    try:
        return dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return dumps(value, separators=(",", ":")).encode()


def base64(data: Data) -> str:
    """Bytes as a text."""
    return b2a_base64(data, newline=False).decode("ascii")


def quoted(text: str) -> str:
    """A text as one segment of a path, or one value of a query; bytes that are no text, too."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


def _bytes(text: str, data: str | None) -> bytes:
    return text.encode("utf-8", "surrogateescape") if data is None else a2b_base64(data)


def _fields(kind: type[Plain], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a JSON object that the class has, too."""
    return {name: fields[name] for name in kind._fields if name in fields}
