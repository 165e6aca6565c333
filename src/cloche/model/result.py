"""The result of a run, and what it is made of."""

from __future__ import annotations

from cloche.model.network_attempt import NetworkAttempt
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# Two MIME types of our own.
CHART = "application/vnd.cloche.chart+json"  # the contents of a figure: kernels/charts/
TABLE = "application/vnd.cloche.table+json"  # the contents of a table: kernels/tables.py


def _form(mime: str) -> Callable[[Display], Any]:
    return lambda display: display.mime.get(mime)


class Display(Plain):
    """Something that a cell displayed, by MIME type: texts, JSON values, and binary forms as base64."""

    mime: dict[str, Any]
    metadata: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    is_main: bool = False
    display_id: str | None = None
    _size: int | None = None

    text = property(_form("text/plain"))
    html = property(_form("text/html"))
    markdown = property(_form("text/markdown"))
    latex = property(_form("text/latex"))
    svg = property(_form("image/svg+xml"))
    png = property(_form("image/png"))
    jpeg = property(_form("image/jpeg"))
    pdf = property(_form("application/pdf"))
    json = property(_form("application/json"))
    javascript = property(_form("application/javascript"))
    chart = property(_form(CHART))
    table = property(_form(TABLE))

    @property
    def size(self) -> int | None:
        """An estimate of its characters as JSON, if there is one: to count the values of a large display takes long."""
        return self._size

    def sized(self, size: int) -> Display:
        """Note an estimate of its characters."""
        self.__dict__["_size"] = size
        return self

    def data(self, mime: str) -> bytes:
        """Return one form as bytes: a picture, ready to be written to a file."""
        value = self.mime[mime]
        if not isinstance(value, str):
            from json import dumps

            return dumps(value).encode()
        if mime.startswith("text/") or mime.endswith(("+xml", "/javascript", "json")):
            return value.encode(errors="surrogatepass")
        from binascii import a2b_base64

        return bytes(a2b_base64(value))


class Log(Plain):
    """A piece of output from "stdout" or "stderr", with the time of its arrival in seconds since the epoch."""

    stream: str
    text: str
    time: float


class Artifact(Plain):
    """A file that a cell or a program left under /sandbox/output."""

    path: str
    size: int
    mime: str


class ToolCall(Plain):
    """A call from the code to one of the tools that the sandbox's owner offers."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any  # the tool's answer
    error: str | None  # the reason why there is none
    duration: float  # seconds


class StackFrame(Plain):
    """A call in a traceback: its place, its function and its line of code, as far as the traceback names them."""

    file: str  # empty for a cell
    line: int
    column: int = 0  # 0: unknown
    function: str = ""
    code: str = ""
    cell: int | None = None  # the cell's `execution_count`
    is_own: bool = True  # it is of the user's own code, and not of a library


class Raised(Plain):
    """An exception of a traceback, and the calls that led to it, the innermost first."""

    name: str
    message: str
    # How it led to the exception before it in the list: "cause" (raised from it) or "context" (raised while it was
    # handled); empty for the error itself.
    link: str = ""
    frames: tuple[StackFrame, ...] = ()
    omitted: int = 0  # calls that are left out


class Error(Plain):
    """Why a run did not succeed: its kind (a name in `cloche.model.kinds`), a sentence, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    name: str | None = None  # the exception's class
    traceback: str | None = None  # as it was printed
    traceback_ansi: str | None = None  # of a cell: the same in colour
    raised: tuple[Raised, ...] = ()  # the exceptions in the traceback, the error itself first

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Diagnostic(Plain):
    """A message of a compiler or type checker about a place in the source.

    Line and column count from 1; 0 stands for no particular place.
    """

    file: str
    line: int
    column: int
    message: str
    severity: str = "error"  # or "warning", "note"
    code: str = ""  # the compiler's name for the message: "TS2322", "E0308", "unused-variable"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"


class Result(Plain):
    """The outcome of a program, a command or a cell: its output and displays, how it ended, and what it used."""

    stdout: str
    stderr: str
    exit_code: int  # as in a shell: 128 + n for signal n; 124 when the time was up
    duration: float  # seconds
    cpu_time: float  # seconds
    memory_peak: int  # bytes
    error: Error | None = None
    truncated: bool = False  # the output was cut at its limit
    stdout_bytes: bytes = b""  # exactly as the program wrote it, in whatever encoding
    stderr_bytes: bytes = b""
    wall: str = ""  # the isolation that it ran behind
    # The following fields are for cells (`box.run`); programs have artifacts, and some have displays.
    results: tuple[Display, ...] = ()  # the displays, in order; the value of the last expression is the main one
    logs: tuple[Log, ...] = ()  # standard output and standard error, in order of arrival
    artifacts: tuple[Artifact, ...] = ()  # the files that it wrote or changed under /sandbox/output
    execution_count: int | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    restarted: bool = False  # its kernel ended with it: variables are gone, files are not
    # The following fields are for programs that are compiled or type-checked.
    diagnostics: tuple[Diagnostic, ...] = ()  # the messages of compiler and type checker, in their order
    build_time: float | None = None  # seconds before the program started, which `duration` does not include
    network: tuple[NetworkAttempt, ...] = ()  # attempts to reach hosts, with a network policy

    @property
    def ok(self) -> bool:
        """Whether it ended without an error."""
        return self.error is None

    @property
    def text(self) -> str | None:
        """The value of the last expression as text, or None."""
        return next((shown.text for shown in self.results if shown.is_main), None)

    def __repr__(self) -> str:
        from cloche.results.summary import summary

        return summary(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the forms among which Jupyter chooses; nothing from a sandbox becomes markup in them."""
        from cloche.results.for_notebook import mime_bundle

        return mime_bundle(self)

    def for_model(self, budget: int = 2000) -> str:
        """Return the text that a language model should read, of at most `budget` tokens."""
        from cloche.results.for_model import for_model

        return for_model(self, budget)


# For code that sends results elsewhere.  As JSON a result has all fields but the raw bytes, which go as base64 where
# they are not text; the fields in PARTS hold objects.
JSON_FIELDS = tuple(name for name in Result._fields if not name.endswith("_bytes"))
PARTS: dict[str, type[Plain]] = {
    "results": Display,
    "logs": Log,
    "artifacts": Artifact,
    "tool_calls": ToolCall,
    "diagnostics": Diagnostic,
    "network": NetworkAttempt,
}


class Usage(Plain):
    """The resources that a sandbox uses now, and those that it has used so far."""

    memory: int  # bytes
    memory_peak: int  # bytes
    cpu_time: float  # seconds
    disk: int  # bytes
    processes: int
