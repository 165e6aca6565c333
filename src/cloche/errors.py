"""Every error that Cloche raises, by who can fix it.

    ClocheError
      InvalidRun      the caller: an unknown language, a bad path, a limit out of range
      Refused         the caller, later or in another way: not allowed, too much at once
      Gone            the caller: the sandbox or process does not exist, or not any more
        FileMissing   the caller: the file does not exist
      FileProblem     the caller or the program: a file operation inside the sandbox failed
      SandboxFailed   Cloche: the sandbox could not be built, or its agent was lost
      Unavailable     Cloche, for a while: a server cannot record what happens
      Misconfigured   the operator: something is not installed or not permitted on this host

A program that fails raises none of these: its failure is a field of its `Result`.
"""

from __future__ import annotations


class ClocheError(Exception):
    """The base of all errors.

    `message` says what happened, `hint` what to do about it (it may be empty), and `code` is the same for all errors of
    a kind, in every version: the server sends it as `kind`.  `details` are for operators, and no server sends them.
    """

    code = "error"
    details = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return " ".join(filter(None, (self.message, self.details, self.hint)))


class InvalidRun(ClocheError, ValueError):
    """The request makes no sense, whoever sends it: correct the arguments."""

    code = "invalid"


class Refused(ClocheError):
    """The request is not allowed: not with this key, not on this server, or not now."""

    code = "refused"


class Gone(ClocheError, LookupError):
    """The sandbox, process, context or run does not exist, or does not exist any more."""

    code = "gone"


class FileProblem(ClocheError, OSError):
    """A file operation inside the sandbox failed; `errno` is the number that the operating system gave."""

    code = "file"

    def __init__(self, message: str, hint: str = "", number: int = 0) -> None:
        super().__init__(message, hint)
        self.errno = number


class FileMissing(Gone, FileNotFoundError):
    """The file does not exist in the sandbox."""

    code = "missing"
    errno = 2


class SandboxFailed(ClocheError):
    """Cloche could not build the sandbox, or lost it.  Trying again may help."""

    code = "failed"


class Unavailable(ClocheError):
    """A server cannot record what happens, for now; the same request may succeed later."""

    code = "unavailable"


class Misconfigured(ClocheError):
    """This host lacks something that Cloche needs, or a setting has a value that makes no sense."""

    code = "misconfigured"
