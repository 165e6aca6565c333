"""What a run came to."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Forms of our own, beside those that everybody knows.
CHART = "application/vnd.cloche.chart+json"  # what a figure shows: kernels/charts/
TABLE = "application/vnd.cloche.table+json"  # what a table holds: kernels/tables.py


def _form(mime: str) -> Callable[[Display], Any]:
    return lambda display: display.mime.get(mime)


class Display(Plain):
    """Something that a cell showed, in every form that it has: texts, JSON values, and base64 of what is binary."""

    mime: dict[str, Any]
    metadata: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    is_main: bool = False
    display_id: str | None = None

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

    def data(self, mime: str) -> bytes:
        """One form as bytes: a picture ready to be written to a file."""
        value = self.mime[mime]
        if not isinstance(value, str):
            from json import dumps

            return dumps(value).encode()
        if mime.startswith("text/") or mime.endswith(("+xml", "/javascript", "json")):
            return value.encode(errors="surrogatepass")
        from binascii import a2b_base64

        return bytes(a2b_base64(value))


class Log(Plain):
    """A piece of output, from "stdout" or "stderr", and when it came (seconds since the epoch)."""

    stream: str
    text: str
    time: float


class Artifact(Plain):
    """A file that a cell left under /sandbox/output."""

    path: str
    size: int
    mime: str


class ToolCall(Plain):
    """A call that the code made of a tool which its owner offers."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any  # what the tool answered
    error: str | None  # or why it did not
    duration: float  # seconds


class Error(Plain):
    """Why a run did not succeed: its kind (see `cloche.model.kinds`), a sentence, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    name: str | None = None  # the exception's class
    traceback: str | None = None  # as it was printed
    traceback_ansi: str | None = None  # of a cell: the same in colour

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Diagnostic(Plain):
    """What a compiler or a type checker says of a place in the source; line and column count from 1, 0 is nowhere."""

    file: str
    line: int
    column: int
    message: str
    severity: str = "error"  # or "warning", "note"
    code: str = ""  # the compiler's own: "TS2322", "E0308", "unused-variable"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"


class Result(Plain):
    """The outcome of a program, a command or a cell: what it printed and showed, how it ended, what it used."""

    stdout: str
    stderr: str
    exit_code: int  # as a shell counts: 128 + n for signal n; 124 when the time was up
    duration: float  # seconds
    cpu_time: float  # seconds
    memory_peak: int  # bytes
    error: Error | None = None
    truncated: bool = False  # output was cut at the limit
    stdout_bytes: bytes = b""  # as they came, whatever the encoding
    stderr_bytes: bytes = b""
    wall: str = ""  # the isolation that it ran behind
    # What follows is of cells (`box.run`)
    results: tuple[Display, ...] = ()  # what was displayed, in order; the last expression's value is the main one
    logs: tuple[Log, ...] = ()  # standard output and standard error in the order in which they came
    artifacts: tuple[Artifact, ...] = ()  # files that it wrote or changed under /sandbox/output
    execution_count: int | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    restarted: bool = False  # its kernel ended with it: variables are gone, files are not
    # And this of programs that are compiled or checked
    diagnostics: tuple[Diagnostic, ...] = ()  # what compiler and checker say, in the order in which they say it
    build_time: float | None = None  # seconds before the program began; `duration` is the program's alone

    @property
    def ok(self) -> bool:
        """Did it end well?"""
        return self.error is None

    @property
    def text(self) -> str | None:
        """The last expression's value as text; None when there is none."""
        return next((shown.text for shown in self.results if shown.is_main), None)

    def for_model(self, budget: int = 2000) -> str:
        """What a model should read of it, within so many tokens."""
        from cloche.results.for_model import for_model

        return for_model(self, budget)


# What follows is for those who carry results elsewhere: as JSON they have all fields but the raw bytes, which go as
# base64 where they are no text, and these are objects of their own.
JSON_FIELDS = tuple(name for name in Result._fields if not name.endswith("_bytes"))
PARTS: dict[str, type[Plain]] = {
    "results": Display,
    "logs": Log,
    "artifacts": Artifact,
    "tool_calls": ToolCall,
    "diagnostics": Diagnostic,
}


class Usage(Plain):
    """What a sandbox uses at the moment, and has used."""

    memory: int  # bytes
    memory_peak: int  # bytes
    cpu_time: float  # seconds
    disk: int  # bytes
    processes: int
