"""The kinds of errors that a run can end with, and what each door needs to know about them.

KINDS is the one list of them.  `Error.kind` is one of its names; the command line, the WebSocket, MCP and the E2B door
read their part of it here, and a test compares docs/api.md with it.
"""

from __future__ import annotations

from cloche.model.plain import Plain


class ErrorKind(Plain):
    """A row of KINDS."""

    name: str
    meaning: str  # when it happens
    hint: str  # what the error's hint says
    is_silent: bool  # the program's own output and exit code do not say what happened: a person has to be told
    e2b: str  # the name of the exception that E2B's clients get
    exit_code: int | None = None  # of `cloche run`; None is the program's own


_UNEXPECTED = "UnexpectedEndOfExecution"

KINDS = {
    row.name: row
    for row in (
        ErrorKind(
            "syntax",
            "the program could not be compiled, by its interpreter or its compiler",
            "correct the line that the message points at",
            is_silent=False,
            e2b="SyntaxError",
        ),
        ErrorKind(
            "runtime",
            "an exception (or what its language has instead) ended the program",
            "what to check, for common exceptions; that there is no network",
            is_silent=False,
            e2b="RuntimeError",
        ),
        ErrorKind(
            "exit",
            "it ended with an exit code other than 0",
            "whether standard error says more",
            is_silent=False,
            e2b="SystemExit",
        ),
        ErrorKind(
            "timeout",
            "its time was up; it was killed",
            "do less, look for an endless loop or a wait for input, or `timeout=`",
            is_silent=True,
            e2b="ExecutionTimeout",
            exit_code=124,
        ),
        ErrorKind(
            "memory",
            "it needed more memory than allowed (all programs of the sandbox are killed then; its files stay), "
            "or raised MemoryError",
            "work on less at a time, or `memory=`",
            is_silent=True,
            e2b="OutOfMemory",
            exit_code=137,
        ),
        ErrorKind(
            "output",
            "it printed more than allowed and was ended; `truncated` is true",
            "print a summary, or write a file",
            is_silent=True,
            e2b="TooMuchOutput",
        ),
        ErrorKind(
            "disk",
            "it failed and the disk was full, of bytes or of files",
            "delete or write less, or `disk=`",
            is_silent=True,
            e2b="DiskFull",
        ),
        ErrorKind(
            "processes",
            "it failed and was refused a process or thread, or there were too many already to start it",
            "start fewer, or `processes=`",
            is_silent=True,
            e2b="TooManyProcesses",
        ),
        ErrorKind(
            "killed",
            "a signal ended it, or the sandbox was closed meanwhile",
            "what SIGSEGV, SIGABRT or SIGINT mean",
            is_silent=True,
            e2b=_UNEXPECTED,
        ),
        ErrorKind(
            "policy",
            "it failed because the jail refused a system call, which is named",
            "do it without that call",
            is_silent=True,
            e2b="NotPermitted",
        ),
        ErrorKind(
            "network",
            "it failed after the network policy had refused a connection; the message names the host and the reason",
            "how to allow the host",
            is_silent=True,
            e2b="NetworkRefused",
        ),
        ErrorKind(
            "unavailable",
            "the tools that run this language are not in the sandbox; nothing was run",
            "`cloche languages install …`",
            is_silent=True,
            e2b="LanguageUnavailable",
            exit_code=127,
        ),
        ErrorKind(
            "lost",
            "the sandbox ended before the program did",
            "run it again in a new sandbox",
            is_silent=True,
            e2b=_UNEXPECTED,
        ),
    )
}


def kind_of(name: str) -> ErrorKind:
    """The row of a kind; a name that is in no row, as a newer server may send, counts as silent."""
    return KINDS.get(name) or ErrorKind(name, "", "", is_silent=True, e2b=_UNEXPECTED)
