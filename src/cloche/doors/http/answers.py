"""What is answered, as the OpenAPI description tells it; the values themselves are made by `cloche.doors.shapes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, create_model

from cloche.model.limits import LIMITS

T = TypeVar("T")


class Problem(BaseModel):
    """What went wrong, and what to do."""

    kind: str
    message: str
    hint: str = ""
    details: dict[str, Any] = {}


class ProblemAnswer(BaseModel):
    """The one shape of all errors."""

    error: Problem


class ErrorAnswer(BaseModel):
    """Why a run did not succeed."""

    kind: str
    message: str
    hint: str
    name: str | None = None
    traceback: str | None = None
    traceback_ansi: str | None = None


class DisplayAnswer(BaseModel):
    """Something displayed, in all its forms."""

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
    """A file that was left under /sandbox/output."""

    path: str
    size: int
    mime: str


class ImageAnswer(BaseModel):
    """A picture, in base64."""

    mime: str
    data: str


class DiagnosticAnswer(BaseModel):
    """What a compiler or a checker says of a place in the source."""

    file: str
    line: int
    column: int
    message: str
    severity: str
    code: str


class ResultAnswer(BaseModel):
    """What a run came to."""

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
    text: str | None
    context: str
    stdout_base64: str | None = None
    stderr_base64: str | None = None


class ModelAnswer(BaseModel):
    """What a model should read of a run."""

    run_id: str
    view: str
    text: str
    images: list[ImageAnswer]
    error: ErrorAnswer | None
    exit_code: int
    artifacts: list[ArtifactAnswer]


class RunAnswer(BaseModel):
    """A run and its outcome, as recorded."""

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


class CheckpointAnswer(BaseModel):
    """A checkpoint."""

    id: str
    name: str
    time: float
    lost: dict[str, Any]


class RestoredAnswer(BaseModel):
    """What could not be brought back."""

    lost: dict[str, Any]
    restarted: list[str]
    files: dict[str, Any]


class MomentAnswer(BaseModel):
    """An entry of the history."""

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


class FileChangesAnswer(BaseModel):
    """What differs in the files."""

    created: list[str]
    changed: list[str]
    removed: list[str]


class VariableChangesAnswer(BaseModel):
    """What differs in the variables."""

    created: list[VariableAnswer]
    changed: list[VariableAnswer]
    removed: list[str]


class AttemptAnswer(BaseModel):
    """Code that was tried, and what it changed."""

    id: str
    result: ResultAnswer
    files: FileChangesAnswer
    variables: VariableChangesAnswer


class CandidateAnswer(BaseModel):
    """One of several."""

    code: str
    result: ResultAnswer
    score: float | None


class BestAnswer(BaseModel):
    """Which was the best; null when none could be kept."""

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


class NetworkAnswer(BaseModel):
    """Bytes over the network."""

    sent: int
    received: int


class UsageAnswer(BaseModel):
    """What a sandbox uses."""

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
    """A command under way, or over."""

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
    """Where a port can be reached: on an origin of its own, and below a path of ours."""

    port: int
    url: str
    path: str
    token: str
    expires: float


class Listening(BaseModel):
    """Does anything listen there?"""

    port: int
    listening: bool


class KeyAnswer(BaseModel):
    """A key; its secret is told once, when it is made."""

    id: str
    owner: str
    name: str
    scopes: list[str]
    policy: dict[str, Any]
    limits: dict[str, float]
    created: float
    revoked: float | None
    key: str | None = None


class AuditAnswer(BaseModel):
    """Who did what, when."""

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
    """A small project to start from; its files and entry are what `POST /v1/run` takes."""

    name: str
    language: str
    description: str
    entry: str
    files: dict[str, str] = Field(description="what is in them, by path")


class TemplateSummary(BaseModel):
    """A template without what is in its files."""

    name: str
    language: str
    description: str
    entry: str
    files: list[str] = Field(description="their paths")


class StatusAnswer(BaseModel):
    """All is well."""

    status: Literal["ok"]


class VersionAnswer(BaseModel):
    """Which Cloche this is, and which version of this interface it has."""

    name: str
    version: str
    api: str


class DayAnswer(BaseModel):
    """What was used on one day (UTC)."""

    runs: int
    cpu_time: float = Field(description="seconds")
    bytes: int = Field(description="that went in and out")


class UsedAnswer(BaseModel):
    """What an owner has used, by day (2026-01-31), and how many sandboxes are alive now."""

    owner: str
    sandboxes: int
    days: dict[str, DayAnswer]


class Page(BaseModel, Generic[T]):
    """A page of a list; `next` goes into `after` for the following one."""

    items: list[T]
    next: str | None


class Created(BaseModel):
    """Was it made, or there already?"""

    created: bool
