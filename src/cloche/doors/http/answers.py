"""The answers in the OpenAPI description; `cloche.doors.shapes` makes the values themselves.

tests/model/test_result.py compares these classes with `cloche.model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, create_model

from cloche.doors.http.network_fields import NetworkAnswer, NetworkAttemptAnswer, NetworkSettingsAnswer
from cloche.model.limits import LIMITS

T = TypeVar("T")


class Problem(BaseModel):
    """An error: what happened, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    details: dict[str, Any] = {}


class ProblemAnswer(BaseModel):
    """The body of every answer that is an error."""

    error: Problem


class StackFrameAnswer(BaseModel):
    """A call in a traceback; `cell` is the number of the cell where there is no file."""

    file: str
    line: int
    column: int
    function: str
    code: str
    cell: int | None
    is_own: bool


class RaisedAnswer(BaseModel):
    """An exception and its calls, the innermost first; `link` says how it led to the exception before it."""

    name: str
    message: str
    link: str
    frames: list[StackFrameAnswer]
    omitted: int


class ErrorAnswer(BaseModel):
    """The reason why a run failed."""

    kind: str
    message: str
    hint: str
    name: str | None = None
    traceback: str | None = None
    traceback_ansi: str | None = None
    raised: list[RaisedAnswer] = []


class DisplayAnswer(BaseModel):
    """Something that the code displayed, by MIME type."""

    mime: dict[str, Any]
    metadata: dict[str, Any]
    is_main: bool
    display_id: str | None


class LogAnswer(BaseModel):
    """A piece of output."""

    stream: str
    text: str
    time: float


class ArtifactAnswer(BaseModel):
    """A file that the code wrote under /sandbox/output."""

    path: str
    size: int
    mime: str


class ImageAnswer(BaseModel):
    """A picture as base64."""

    mime: str
    data: str


class DiagnosticAnswer(BaseModel):
    """A message of a compiler or type checker about a place in the source."""

    file: str
    line: int
    column: int
    message: str
    severity: str
    code: str


class ResultAnswer(BaseModel):
    """The result of a run."""

    run_id: str
    stdout: str
    stderr: str
    exit_code: int
    duration: float
    cpu_time: float
    memory_peak: int
    error: ErrorAnswer | None
    truncated: bool
    wall: str
    results: list[DisplayAnswer]
    logs: list[LogAnswer]
    artifacts: list[ArtifactAnswer]
    execution_count: int | None
    tool_calls: list[dict[str, Any]]
    restarted: bool
    diagnostics: list[DiagnosticAnswer]
    build_time: float | None
    network: list[NetworkAttemptAnswer]
    text: str | None
    context: str
    stdout_base64: str | None = None
    stderr_base64: str | None = None


class ModelAnswer(BaseModel):
    """The result of a run as a language model should read it."""

    run_id: str
    view: str
    text: str
    images: list[ImageAnswer]
    error: ErrorAnswer | None
    exit_code: int
    artifacts: list[ArtifactAnswer]


class RunAnswer(BaseModel):
    """The record of a run."""

    id: str
    sandbox: str | None
    context: str
    language: str
    state: str
    started: float
    ended: float | None
    exit_code: int | None
    error_kind: str | None
    duration: float
    cpu_time: float
    memory_peak: int
    code_sha256: str
    result: dict[str, Any] | None


_LIMIT_TYPES: dict[str, Any] = {"seconds": float | None, "bytes": int, "cores": float, "processes": int}

if TYPE_CHECKING:

    class LimitsAnswer(BaseModel):
        """A field for each limit of `cloche.model.limits.LIMITS`."""

else:
    LimitsAnswer = create_model(
        "LimitsAnswer",
        __doc__="The limits of a sandbox.",
        **{row.name: (_LIMIT_TYPES[row.unit], Field(description=row.help)) for row in LIMITS},
    )


class SandboxAnswer(BaseModel):
    """A sandbox."""

    id: str
    state: str
    created: float
    expires: float | None
    idle_timeout: float | None
    paused: bool
    metadata: dict[str, str]
    limits: LimitsAnswer
    wall: str
    persistent: bool
    workspace: str | None
    ended: float | None
    reason: str


class ContextAnswer(BaseModel):
    """A context."""

    id: str
    language: str
    cwd: str | None
    is_branch: bool


class ForkAnswer(ContextAnswer):
    """A context that continues from another; `lost` and `note` say what it could not take along."""

    lost: dict[str, Any]
    note: str


class CheckpointAnswer(BaseModel):
    """A checkpoint; `lost` and `note` say what it cannot bring back."""

    id: str
    name: str
    time: float
    lost: dict[str, Any]
    note: str


class RestoredAnswer(BaseModel):
    """The outcome of going back to a checkpoint: what was lost, and which contexts started with no variables."""

    lost: dict[str, Any]
    restarted: list[str]
    files: dict[str, Any]
    note: str


class MomentAnswer(BaseModel):
    """An entry of a session's history."""

    kind: str
    time: float
    context: str
    code: str
    error: str | None
    name: str


class VariableAnswer(BaseModel):
    """A variable."""

    name: str
    type: str
    size: int
    shown: str
    shape: str


class VariableListAnswer(BaseModel):
    """The variables of a context; where they cannot be listed now, or in this language, `state` says so."""

    items: list[VariableAnswer]
    total: int
    state: Literal["ready", "busy", "unsupported"]


class FileChangesAnswer(BaseModel):
    """The files that differ."""

    created: list[str]
    changed: list[str]
    removed: list[str]


class VariableChangesAnswer(BaseModel):
    """The variables that differ."""

    created: list[VariableAnswer]
    changed: list[VariableAnswer]
    removed: list[str]


class AttemptAnswer(BaseModel):
    """The outcome of code that was tried, and its changes."""

    id: str
    result: ResultAnswer
    files: FileChangesAnswer
    variables: VariableChangesAnswer


class CandidateAnswer(BaseModel):
    """One of several candidates, with its outcome."""

    code: str
    result: ResultAnswer
    score: float | None


class BestAnswer(BaseModel):
    """The best candidate; `index` is null when none could be kept."""

    index: int | None
    candidates: list[CandidateAnswer]


class EntryAnswer(BaseModel):
    """A file, folder or link."""

    path: str
    kind: str
    size: int
    mode: int
    modified: float
    target: str | None


class UsageAnswer(BaseModel):
    """The resources that a sandbox uses."""

    memory: int
    memory_peak: int
    cpu_time: float
    disk: int
    processes: int
    network: NetworkAnswer


class DiskAnswer(BaseModel):
    """The workspace's file system."""

    total: int
    free: int
    inodes: int
    inodes_free: int


class CommandAnswer(BaseModel):
    """A command that runs or has ended."""

    id: str
    pid: int | None = None
    command: str | list[str]
    pty: bool
    started: float
    running: bool
    exit_code: int | None
    result: ResultAnswer | None = None


class PortAnswer(BaseModel):
    """A port that a program in the sandbox listens on."""

    port: int
    address: str
    pid: int | None = None


class PortAddress(BaseModel):
    """The addresses of a port: on an origin of its own, and below a path of this server."""

    port: int
    url: str
    path: str
    token: str
    expires: float


class Listening(BaseModel):
    """Whether a program listens on the port."""

    port: int
    listening: bool


class KeyAnswer(BaseModel):
    """A key, without its secret, which is shown only once: in the answer that creates it."""

    id: str
    owner: str
    name: str
    scopes: list[str]
    policy: dict[str, Any]
    limits: dict[str, float]
    created: float
    revoked: float | None
    used: float | None = Field(description="when it was used last, to within ten minutes if the server crashed since")
    key: str | None = None


class CurrentKeyAnswer(BaseModel):
    """The key of the request: what it may do, and how much of its limits is in use."""

    id: str
    owner: str
    name: str
    scopes: list[str]
    limits: dict[str, float]
    in_use: dict[str, float] = Field(description="by the limits' names: at once now, and of today (UTC)")
    network: NetworkSettingsAnswer = Field(description="the most that its sandboxes may reach")


class AuditAnswer(BaseModel):
    """An entry of the audit log."""

    id: str
    time: float
    owner: str
    key: str
    action: str
    target: str
    details: dict[str, Any]


class LanguageAnswer(BaseModel):
    """A language, and whether this server can run it."""

    name: str
    title: str = Field(description="as people write it")
    aliases: list[str]
    extensions: list[str] = Field(description="of its files, the usual one first")
    programs: bool
    sessions: bool
    state: Literal["ready", "old", "installable", "unavailable"]
    version: str | None
    hint: str = Field(description="what is missing or could be better, and what to do about it")
    hello: str = Field(description="a program that says hello")


class TemplateAnswer(BaseModel):
    """A small project to start from, with `files` and `entry` as `POST /v1/run` takes them."""

    name: str
    language: str
    description: str
    entry: str
    files: dict[str, str] = Field(description="contents by path")


class TemplateSummary(BaseModel):
    """A template without the contents of its files."""

    name: str
    language: str
    description: str
    entry: str
    files: list[str] = Field(description="paths")


class StatusAnswer(BaseModel):
    """The server works."""

    status: Literal["ok"]


class VersionAnswer(BaseModel):
    """The version of Cloche, and the version of its HTTP interface."""

    name: str
    version: str
    api: str


class DayAnswer(BaseModel):
    """The use of one day (UTC)."""

    runs: int
    cpu_time: float = Field(description="seconds")
    bytes: int = Field(description="bytes sent and received")


class UsedAnswer(BaseModel):
    """The use of an owner by day (2026-01-31), and the number of sandboxes alive now."""

    owner: str
    sandboxes: int
    days: dict[str, DayAnswer]


class KeyUsedAnswer(BaseModel):
    """The use of a key on the days (2026-01-31) on which it was used."""

    key: str = Field(description="its id; empty for runs before the server counted them by key")
    days: dict[str, DayAnswer]


class Page(BaseModel, Generic[T]):
    """A page of a list; pass `next` as `after` to get the following page."""

    items: list[T]
    next: str | None


class Created(BaseModel):
    """Whether the folder was created; false when it existed already."""

    created: bool
