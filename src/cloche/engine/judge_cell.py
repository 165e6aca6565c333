"""Decides why a cell failed, as judge.py does for programs."""

from __future__ import annotations

from cloche.engine.judge import (
    SYNTAX,
    Traceback,
    advice,
    exit_advice,
    is_out_of_memory,
    killed,
    last_complaint,
    raised_in,
    seconds,
    size,
)
from cloche.model.limits import Limits
from cloche.model.plain import Plain
from cloche.model.result import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GONE = "The kernel ended with it: variables are gone, files are not."
_SIGABRT = 6
_MAX_TEXT = 256 << 10  # characters of a kernel's description of an error


class CellFacts(Plain):
    """The facts about a cell that has ended."""

    language: str
    status: str  # the kernel's own status: "ok", "error" or "exit"
    code: int  # the exit code of the code or its kernel; a negative number is the signal
    died: bool  # the kernel ended with the cell
    lost: bool = False  # the sandbox ended too, or its agent sent malformed answers
    why: str = ""  # why it was stopped: "timeout", "output", "interrupt", "restart", or "garbled": malformed messages
    error: dict[str, Any] | None = None  # the kernel's description of an exception
    reason: str = ""  # why the wall ended the sandbox, if it did
    oom_kills: int = 0
    stderr_tail: str = ""
    stdout_tail: str = ""
    disk_free: int | None = None
    inodes_free: int | None = None
    refused: tuple[str, ...] = ()

    def exit_code(self, error: Error | None) -> int:
        """Return the exit code that a shell would report."""
        if error is None:
            return 0
        if error.kind == "timeout":
            return 124
        if self.code < 0:
            return 128 - self.code
        return self.code or 1


def judge_cell(facts: CellFacts, limits: Limits) -> Error | None:
    """Return the error, or None for a success."""
    return _ended_by_us(facts, limits) or _ended_by_itself(facts, limits)


def _ended_by_us(facts: CellFacts, limits: Limits) -> Error | None:
    if facts.why == "timeout" or facts.reason == "timeout":
        aftermath = "It did not yield to an interrupt. " + _GONE if facts.died else "Variables and files are kept."
        limit = f"after {seconds(limits.timeout_s)}" if limits.timeout_s else "when its time was up"
        return _with(
            facts,
            "timeout",
            f"The code was stopped {limit}. {aftermath}",
            "Make it do less, look for an endless loop or a wait for input, or allow more time with timeout=.",
        )
    if facts.reason == "memory" or (facts.oom_kills and facts.died):
        return _memory(facts, limits)
    if facts.why == "output":
        return _with(
            facts,
            "output",
            f"The code was stopped after printing more than {size(limits.output_bytes)}."
            + (f" {_GONE}" if facts.died else ""),
            "Print a summary, or write the data to a file under /sandbox/output instead.",
        )
    if facts.reason == "closed":
        return Error("killed", "The sandbox was closed while the code ran.", "Run it again in a new sandbox.")
    if facts.lost:
        return Error("lost", "The sandbox ended before the code did.", "Run it again in a new sandbox: files are gone.")
    return None


def _ended_by_itself(facts: CellFacts, limits: Limits) -> Error | None:
    if facts.died:
        if facts.why == "interrupt":
            return Error("killed", f"The code was interrupted, and did not yield. {_GONE}", _AGAIN)
        if facts.why == "restart":
            return Error("killed", f"The code was ended with its kernel: its context was restarted. {_GONE}", _AGAIN)
        if facts.why == "garbled":
            return Error("killed", f"The code broke into its kernel's own descriptors. {_GONE}", _HANDS_OFF)
        if facts.code == -_SIGABRT and "heap out of memory" in facts.stderr_tail:  # Node, at its own memory limit
            return _memory(facts, limits)
        if facts.code < 0:
            error = killed(-facts.code, None)
            return error.replace(message=f"{error.message} {_GONE}")
        return Error(
            "exit",
            f"The code ended its kernel with exit code {facts.code}. {_GONE}",
            "Do not end the process in a session (os._exit, exec): let the code return.",
        )
    if facts.error is not None:
        return _exception(facts, limits)
    if facts.status in ("ok", "exit") and facts.code:
        return _exit(facts)
    if facts.status not in ("ok", "exit"):  # "error", or nothing that we know: a kernel that says so little has failed
        return Error("runtime", "The code failed for an unknown reason.", _LOOK)
    return None


def _exit(facts: CellFacts) -> Error:
    if facts.language == "bash" and "syntax error" in facts.stderr_tail:
        line = next(line for line in facts.stderr_tail.split("\n") if "syntax error" in line)
        return Error("syntax", line[-200:], _SYNTAX, raised=last_complaint(line))
    if _disk_full(facts, facts.stderr_tail):
        return _disk(facts, limits=None)
    return Error(
        "exit",
        f"The code ended with exit code {facts.code}.",
        exit_advice(facts.stderr_tail, facts.stdout_tail),
        raised=last_complaint(facts.stderr_tail),
    )


_HANDS_OFF = "Write only to files and sockets that the code itself has opened."
_AGAIN = "Run it again if it is needed."
_LOOK = "Look at its standard error, and at exceptions whose class does odd things when it is printed."
_SYNTAX = "Correct the line that the message points at and run it again."


def _exception(facts: CellFacts, limits: Limits) -> Error:
    trace = _trace(facts)
    if trace.name == "KeyboardInterrupt" and facts.why == "interrupt":
        return _with(facts, "killed", "The code was interrupted. Variables and files are kept.", _AGAIN)
    if is_out_of_memory(trace):
        return _memory(facts, limits)
    if _disk_full(facts, trace.text):
        return _disk(facts, limits)
    if "can't start new thread" in trace.text or "[Errno 11] Resource temporarily unavailable" in trace.text:
        return _with(
            facts,
            "processes",
            f"The code tried to have more than {limits.processes} processes and threads at once.",
            "Start fewer processes or threads, wait for the earlier ones, or allow more with processes=.",
        )
    if facts.refused and ("Operation not permitted" in trace.text or "Errno 1]" in trace.text):
        return _with(
            facts,
            "policy",
            f"The sandbox does not allow the system call {', '.join(facts.refused)}.",
            "Do it without that: a sandbox cannot mount, trace pid 1, load kernel code, unshare or open raw sockets.",
        )
    if trace.name in SYNTAX and "\n    at " not in trace.text:  # JavaScript raises it for data too, with a stack
        return _with(facts, "syntax", trace.message, _SYNTAX)
    return _with(facts, "runtime", trace.message, advice(trace, facts.stderr_tail))


def _trace(facts: CellFacts) -> Traceback:
    fields = facts.error or {}

    def text(name: str) -> str:
        value = fields.get(name)
        return value[:_MAX_TEXT] if isinstance(value, str) else ""

    return Traceback(text("name"), text("message"), text("traceback"))


def _with(facts: CellFacts, kind: str, message: str, hint: str) -> Error:
    if facts.error is None:
        return Error(kind, message, hint)
    trace, ansi = _trace(facts), facts.error.get("ansi")
    colours = ansi[:_MAX_TEXT] if isinstance(ansi, str) else None
    return Error(kind, message, hint, trace.name, trace.text, colours, raised_in(trace))


def _memory(facts: CellFacts, limits: Limits) -> Error:
    return _with(
        facts,
        "memory",
        f"The code needed more than {size(limits.memory_bytes)} of memory." + (f" {_GONE}" if facts.died else ""),
        "Work on less data at a time, delete variables that are no longer needed, or allow more with memory=.",
    )


def _disk_full(facts: CellFacts, text: str) -> bool:
    full = facts.disk_free is not None and facts.disk_free < 4096
    return full or facts.inodes_free == 0 or "No space left on device" in text or "Errno 28" in text


def _disk(facts: CellFacts, limits: Limits | None) -> Error:
    holds = f"; its disk holds {size(limits.disk_bytes)}" if limits is not None else ""
    what = "files" if facts.inodes_free == 0 else "disk space"
    return _with(
        facts,
        "disk",
        f"The sandbox is out of {what}{holds}.",
        "Delete files that are no longer needed, write less, or allow more with disk=.",
    )
