"""What a run came to."""

from __future__ import annotations

from cloche.model.plain import Plain

KINDS = (
    "syntax",
    "runtime",
    "exit",
    "timeout",
    "memory",
    "output",
    "disk",
    "processes",
    "killed",
    "policy",
    "unavailable",
    "lost",
)


class Error(Plain):
    """Why a run did not succeed: its kind (one of KINDS), a sentence, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    name: str | None = None  # Python: the exception's class
    traceback: str | None = None  # Python: as it was printed

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Result(Plain):
    """The outcome of a program or command: what it printed, how it ended, what it used."""

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

    @property
    def ok(self) -> bool:
        """Did it end well?"""
        return self.error is None


class Usage(Plain):
    """What a sandbox uses at the moment, and has used."""

    memory: int  # bytes
    memory_peak: int  # bytes
    cpu_time: float  # seconds
    disk: int  # bytes
    processes: int
