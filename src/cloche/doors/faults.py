"""The last resort of every door: a problem on our side is logged with an id, and the client gets only the id.

The texts of such problems are written for operators: they may name files, databases and addresses of the host.
"""

from __future__ import annotations

import logging
import re
from secrets import token_hex

from cloche.errors import ClocheError, FileProblem, Gone, InvalidRun, Misconfigured, Refused, Unavailable
from cloche.model.wording import worded

log = logging.getLogger("cloche.faults")

_CALLERS = (InvalidRun, Refused, Gone, FileProblem)  # about the request, or about files inside the sandbox
_HOST_PATH = re.compile(r"(?<![\w/.:])/(?!sandbox\b|home/user\b|v1/)[\w.+@-]+/[\w.+@-]")


class ServerFault(ClocheError):
    """The server could not do its part; its log has the reason, under the id in the message."""

    code = "failed"


def unexpected(problem: Exception) -> ClocheError:
    """Log an exception that nobody expected, once, and return the error for the client."""
    name: str | None = getattr(problem, "cloche_fault", None)
    if name is None:
        name = token_hex(4)
        problem.cloche_fault = name  # type: ignore[attr-defined]  # Starlette raises it again after it has answered
        log.error("fault %s: a request failed with an unexpected exception", name, exc_info=problem)
    return _fault(name)


def for_client(problem: ClocheError, place: str = "http") -> ClocheError:
    """Return the problem in the words of a door, or one without its text if the text is about the host."""
    if isinstance(problem, _CALLERS) or _HOST_PATH.search(f"{problem.message} {problem.hint}") is None:
        return _in_words_of(place, problem)
    name = token_hex(4)
    log.error("fault %s: %s", name, problem)
    if isinstance(problem, Unavailable):
        return Unavailable(f"The server cannot record what happens (fault {name}).", "Try again in a moment.")
    if isinstance(problem, Misconfigured):
        return Misconfigured(
            f"The server lacks something that this request needs (fault {name}).",
            "Tell the operator: the server's log has the details.",
        )
    return _fault(name, type(problem))


def _in_words_of(place: str, problem: ClocheError) -> ClocheError:
    message, hint = worded(problem.message, place), worded(problem.hint, place)
    if (message, hint) == (problem.message, problem.hint):
        return problem
    if isinstance(problem, FileProblem):
        return type(problem)(message, hint, problem.errno or 0)
    # A copy, because other doors may show the same problem; its class may be made from something else than two texts.
    shown = type(problem).__new__(type(problem), message, hint)
    shown.__dict__.update(problem.__dict__, message=message, hint=hint)
    return shown


def _fault(name: str, kind: type[ClocheError] = ServerFault) -> ClocheError:
    text, hint = f"The server failed to answer this request (fault {name}).", "Try again; its log has the details."
    try:
        return kind(text, hint)
    except TypeError:  # an error that is made from something else than two texts
        return ServerFault(text, hint)
