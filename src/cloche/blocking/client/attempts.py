# Generated from src/cloche/client/attempts.py by scripts/blocking.py: edit that file instead.
"""Try before you keep, on a server."""

from __future__ import annotations

from _collections_abc import Callable

from cloche.blocking.client.cells import RemoteRun
from cloche.blocking.engine.attempts import MAX_CANDIDATES, SCORE_S, Attempt
from cloche.blocking.io.tasks import Tasks, call_function
from cloche.client import shapes
from cloche.errors import ClocheError, InvalidRun
from cloche.model.history import Best
from cloche.model.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.client.sandbox import RemoteSandbox


class RemoteAttempt(Attempt):
    """Code that has run in a branch; `keep` it or `discard` it.  A `with` block discards it unless it was kept."""

    _box: RemoteSandbox

    def __init__(self, box: RemoteSandbox, told: dict[str, Any]) -> None:
        self._box, self._path = box, f"/attempts/{told['id']}"
        self._decided = ""
        self.result = shapes.result(told["result"])
        self.files = shapes.file_changes(told["files"])
        self.variables = shapes.variable_changes(told["variables"])

    def keep(self) -> Result:
        """Let the session go on from here."""
        self._decide("kept")
        self._box.call("POST", f"{self._path}/keep", timeout=None)
        self._box.refresh()
        return self.result

    def discard(self) -> None:
        """As if it had never run: variables and files are what they were."""
        self._decide("discarded")
        self._box.call("POST", f"{self._path}/discard", timeout=None)
        self._box.refresh()


def attempt(box: RemoteSandbox, request: dict[str, Any]) -> RemoteAttempt:
    """Run code in a branch, and see what it changes."""
    run = RemoteRun(box)
    told = run.outcome("/attempts", request)
    box.refresh()
    return RemoteAttempt(box, told["attempt"])


def best_of(box: RemoteSandbox, request: dict[str, Any], score: str | Callable[[Result], float]) -> Best:
    """Run candidates in branches, and go on as the one with the highest score."""
    candidates = request["candidates"]
    if isinstance(candidates, str) or not 1 <= len(candidates) <= MAX_CANDIDATES:
        raise InvalidRun(f"best_of takes a list of 1 to {MAX_CANDIDATES} texts.")
    request.update(candidates=list(candidates), score=score if isinstance(score, str) else None)
    contest = RemoteContest(box, score)
    try:
        told = contest.run.outcome("/best_of", request, contest.take)
    except ClocheError:
        if contest.problem is not None:
            raise contest.problem from None
        raise
    box.refresh()
    found = shapes.best(told["best"])
    if found.index is None and contest.problem is not None:
        raise contest.problem
    return found


class RemoteContest:
    """Several candidates, scored here while they run there."""

    def __init__(self, box: RemoteSandbox, score: Any) -> None:
        self._score = score
        self.run = RemoteRun(box)
        self._tasks = Tasks()
        self.problem: Exception | None = None  # that the owner's function raised first

    def take(self, kind: str, told: dict[str, Any]) -> None:
        """An event that is neither a call nor the end."""
        if kind == "score":
            self._tasks.start(self._answer, told)

    def _answer(self, told: dict[str, Any]) -> None:
        try:
            value = call_function(self._score, (shapes.result(told["result"]),), {}, SCORE_S)
        except Exception as problem:
            self.problem = self.problem or problem
            self.run.reply(told["call"], {"error": {"name": type(problem).__name__, "message": str(problem)}})
        else:
            self.run.reply(told["call"], {"value": _number(value)})


def _number(value: Any) -> Any:
    """What JSON can say of a score; whatever else it is, no score."""
    return value if isinstance(value, bool | int | float | str) else _float(value)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
