"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Error:
    """Why a run did not succeed: its kind (one of KINDS), a sentence, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    name: str | None = None  # Python: the exception's class
    traceback: str | None = None  # Python: as it was printed

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a program or command: what it printed, how it ended, what it used."""

    stdout: str
    stderr: str
    exit_code: int  # as a shell counts: 128 + n for signal n; 124 when the time was up
    duration: float  # seconds
    cpu_time: float  # seconds
    memory_peak: int  # bytes
    error: Error | None = None
    truncated: bool = False  # output was cut at the limit
    stdout_bytes: bytes = field(default=b"", repr=False)  # as they came, whatever the encoding
    stderr_bytes: bytes = field(default=b"", repr=False)
    wall: str = ""  # the isolation that it ran behind

    @property
    def ok(self) -> bool:
        """Did it end well?"""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a sandbox uses at the moment, and has used."""

    memory: int  # bytes
    memory_peak: int  # bytes
    cpu_time: float  # seconds
    disk: int  # bytes
    processes: int
