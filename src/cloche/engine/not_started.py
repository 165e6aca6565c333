"""Results and errors of programs that never began: no language for them, no room, or no program to start."""

from __future__ import annotations

from cloche.engine.judge import Facts, judge
from cloche.errors import ClocheError, FileMissing, FileProblem, InvalidRun
from cloche.model.limits import Limits
from cloche.model.result import Error, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENOENT, _E2BIG, _EAGAIN, _ENOSPC = 2, 7, 11, 28
NO_ROOM = (_EAGAIN, _ENOSPC)
_EXIT_CODE = 127  # the exit code of a shell for a command that it cannot find


def unavailable(language: str, wall: str, lacks: str = "") -> Result:
    """Return the result for a language that is not installed, or for a program that lacks something (`lacks`)."""
    from cloche import languages
    from cloche.languages.availability import remedy

    chosen = languages.find(language)
    message, hint = lacks, "Bring it along among the files, or do without."
    if not lacks and languages.installed_since(chosen):
        message = f"{chosen.title} was installed after this process had begun to make sandboxes."
        hint = "Start it anew: the server, or your own program."
    elif not lacks:
        message = f"{chosen.title} is not installed on this host."
        hint = f"{remedy(chosen)} `cloche languages` lists what there is."
    return _result(Error("unavailable", message, hint), wall)


def no_room(number: int, limits: Limits, wall: str) -> Result:
    """Return the result for a program that could not begin because earlier programs had used up a limit."""
    error = Error(
        "processes",
        f"The program could not be started: there are {limits.processes} processes and threads already.",
        "End some of them, or allow more with processes=.",
    )
    if number == _ENOSPC:
        error = judge(Facts(exit_code=_EXIT_CODE, disk_free=0), limits) or error
    return _result(error, wall)


def refusal(failure: dict[str, Any]) -> ClocheError:
    """Turn the agent's refusal into an exception for the caller."""
    number, message = (
        int(failure.get("errno", 0)),
        f"The program could not be started: {str(failure.get('message'))[:1000]}.",
    )
    if number == _E2BIG:
        return too_long()
    return FileMissing(message) if number == ENOENT else FileProblem(message, number=number)


def too_long() -> InvalidRun:
    """Return the error for arguments and variables that do not fit into a request, or that the kernel refuses."""
    return InvalidRun("The arguments and the environment are too long.", "Pass large data as stdin or as files.")


def _result(error: Error, wall: str) -> Result:
    return Result("", "", _EXIT_CODE, 0.0, 0.0, 0, error, wall=wall)
