"""Attempts on a server: code runs in a branch, and its changes are kept or discarded."""

from __future__ import annotations

from _collections_abc import Callable

from cloche.client import shapes
from cloche.client.cells import AsyncServerRun
from cloche.errors import ClocheError
from cloche.io.tasks import AsyncTasks, call_function
from cloche.model.history import Best
from cloche.model.result import Result
from cloche.sandbox.tools import SCORE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncServerSandbox


class AsyncServerTrial:
    """Code that has run in a branch, and waits to be kept or discarded."""

    def __init__(self, box: AsyncServerSandbox, attempt: dict[str, Any]) -> None:
        self._box, self._path = box, f"/attempts/{attempt['id']}"
        self.result = shapes.result(attempt["result"])
        self.files = shapes.file_changes(attempt["files"])
        self.variables = shapes.variable_changes(attempt["variables"])

    async def keep(self) -> None:
        """Continue the context as the branch."""
        await self._box.call("POST", f"{self._path}/keep", timeout=None)

    async def discard(self) -> None:
        """Bring variables and files back to their earlier state."""
        await self._box.call("POST", f"{self._path}/discard", timeout=None)


async def attempt(box: AsyncServerSandbox, request: dict[str, Any]) -> AsyncServerTrial:
    """Run code in a branch, and return its changes."""
    outcome = await AsyncServerRun(box).outcome("/attempts", request)
    return AsyncServerTrial(box, outcome["attempt"])


async def best_of(box: AsyncServerSandbox, request: dict[str, Any], score: str | Callable[[Result], float]) -> Best:
    """Run candidates in branches, and continue as the one with the highest score."""
    request["score"] = score if isinstance(score, str) else None
    contest = AsyncServerContest(box, score)
    try:
        outcome = await contest.run.outcome("/best_of", request, contest.take)
    except ClocheError:
        if contest.problem is not None:
            raise contest.problem from None
        raise
    found = shapes.best(outcome["best"])
    if found.index is None and contest.problem is not None:
        raise contest.problem
    return found


class AsyncServerContest:
    """Several candidates that run on the server and are scored here."""

    def __init__(self, box: AsyncServerSandbox, score: Any) -> None:
        self._score = score
        self.run = AsyncServerRun(box)
        self._tasks = AsyncTasks()
        self.problem: Exception | None = None  # the first exception that the owner's function raised

    async def take(self, kind: str, fields: dict[str, Any]) -> None:
        """Handle an event that is neither a call nor the end."""
        if kind == "score":
            self._tasks.start(self._answer, fields)

    async def _answer(self, fields: dict[str, Any]) -> None:
        try:
            value = await call_function(self._score, (shapes.result(fields["result"]),), {}, SCORE_S)
        except Exception as problem:
            self.problem = self.problem or problem
            await self.run.reply(fields["call"], {"error": {"name": type(problem).__name__, "message": str(problem)}})
        else:
            await self.run.reply(fields["call"], {"value": _number(value)})


def _number(value: Any) -> Any:
    """Return a score as a JSON value; None for anything that is no score."""
    return value if isinstance(value, bool | int | float | str) else _float(value)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
