"""Every error that Cloche raises, by who can mend it.

    ClocheError
      InvalidRun      the caller: an unknown language, a bad path, a limit out of range
      Refused         the caller, later or otherwise: not allowed, too much at once
      Gone            the sandbox or process is not there (any more)
        FileMissing   neither is the file
      FileProblem     the caller or the program: a file operation inside the sandbox failed
      SandboxFailed   us: the wall could not be built, the agent was lost
      Unavailable     us, for a while: a server cannot record what happens
      Misconfigured   the operator: something is not installed or not permitted on this host

The failure of a program that was run is none of these: it is a field of its `Result`.
"""

from __future__ import annotations


class ClocheError(Exception):
    """The root of all errors; `hint` says what can be done."""

    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class InvalidRun(ClocheError, ValueError):
    """What was asked for does not make sense."""

    code = "invalid"


class Refused(ClocheError):
    """What was asked for is not allowed."""

    code = "refused"


class Gone(ClocheError, LookupError):
    """What was asked for is not there."""

    code = "gone"


class FileProblem(ClocheError, OSError):
    """A file operation inside the sandbox failed; `errno` says how."""

    code = "file"

    def __init__(self, message: str, hint: str = "", number: int = 0) -> None:
        super().__init__(message, hint)
        self.errno = number


class FileMissing(Gone, FileNotFoundError):
    """There is no such file in the sandbox."""

    code = "missing"
    errno = 2


class SandboxFailed(ClocheError):
    """The sandbox could not be built, or was lost."""

    code = "failed"


class Unavailable(ClocheError):
    """A server cannot record what happens, for now; the same request may succeed later."""

    code = "unavailable"


class Misconfigured(ClocheError):
    """This host lacks something that Cloche needs."""

    code = "misconfigured"
