"""Try before you keep: code run in a branch, what it changed, and then kept or discarded; the best of several."""

from __future__ import annotations

from _collections_abc import Callable, Sequence
from math import isfinite

from cloche.engine.checkpoints import AsyncCheckpoint
from cloche.engine.contexts import AsyncContext
from cloche.errors import Gone, InvalidRun
from cloche.io.tasks import at_once, call_function
from cloche.model.history import Best, Candidate, FileChanges, Variable, VariableChanges
from cloche.model.result import Result
from cloche.sandbox.checks import checked_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.sandbox import AsyncSandbox

MAX_CANDIDATES = 16
SCORE_S = 60.0  # for the owner's function to score one
# Code that names these means everybody's files, wherever its working directory is.
_ABSOLUTE = ("/sandbox", "/data", "/home/user", "expanduser", "~/", "Path.home")


class AsyncAttempt:
    """Code that has run in a branch; `keep` it or `discard` it.  A `with` block discards it unless it was kept."""

    def __init__(
        self,
        box: AsyncSandbox,
        context: AsyncContext,
        branch: AsyncContext,
        before: AsyncCheckpoint,
        result: Result,
        files: FileChanges,
        variables: VariableChanges,
    ) -> None:
        self._box, self._context, self._branch, self._before = box, context, branch, before
        self._decided = ""
        self.result, self.files, self.variables = result, files, variables

    async def keep(self) -> Result:
        """Let the session go on from here."""
        self._decide("kept")
        await self._box.checkpoints.replace(self._context, self._branch)
        await self._box.went_on(self._before)
        return self.result

    async def discard(self) -> None:
        """As if it had never run: variables and files are what they were."""
        self._decide("discarded")
        await self._box.contexts.remove(self._branch)
        await self._box.checkpoints.restore_files(self._before)
        await self._box.checkpoints.remove(self._before)

    async def __aenter__(self) -> AsyncAttempt:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._decided:
            await self.discard()

    def _decide(self, what: str) -> None:
        if self._decided:
            raise Gone(f"This attempt was {self._decided} already.")
        self._decided = what


async def attempt(box: AsyncSandbox, context: AsyncContext, run: Callable[[AsyncContext], Any]) -> AsyncAttempt:
    """Run something in a branch of a context, and see what it changed."""
    before = await box.checkpoints.take(pinned=True)
    branch: AsyncContext | None = None
    try:
        branch = await box.checkpoints.branch(before, context, "shared")
        old = await _variables(box, branch)
        result: Result = await run(branch)
        new = await _variables(box, branch)
        files = await box.checkpoints.changes(before)
    except BaseException:
        if branch is not None:
            await box.contexts.remove(branch)
        await box.checkpoints.restore_files(before)
        await box.checkpoints.remove(before)
        raise
    return AsyncAttempt(box, context, branch, before, result, files, _compare(old, new))


async def best_of(
    box: AsyncSandbox,
    context: AsyncContext,
    candidates: Sequence[str],
    score: str | Callable[[Result], float],
    timeout: float | None,
) -> Best:
    """Run candidates in branches of a context, and let it go on as the one with the highest score."""
    if isinstance(candidates, str) or not 1 <= len(candidates) <= MAX_CANDIDATES:
        raise InvalidRun(f"best_of takes a list of 1 to {MAX_CANDIDATES} texts.")
    box.limits_with(timeout)  # raises here what each candidate would raise
    for code in candidates:
        checked_code(code)
    contest = AsyncContest(box, context, score, timeout)
    if any(place in code for code in candidates for place in _ABSOLUTE):
        return await contest.one_after_the_other(candidates)
    return await contest.side_by_side(candidates)


class AsyncContest:
    """Several candidates from one starting point."""

    def __init__(
        self,
        box: AsyncSandbox,
        context: AsyncContext,
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> None:
        self._box, self._context, self._score, self._timeout = box, context, score, timeout
        self._branches: list[AsyncContext] = []  # those that are not decided on
        self._checkpoints: list[AsyncCheckpoint] = []
        self._problem: Exception | None = None  # that the owner's function raised first

    async def side_by_side(self, candidates: Sequence[str]) -> Best:
        """Each in a branch with files of its own; the winner's become everybody's."""
        before = await self._take()
        try:
            branches = [await self._branch(before, "copy") for _ in candidates]
            jobs = [_job(self._try, code, branch) for code, branch in zip(candidates, branches, strict=True)]
            tried = await at_once(jobs)
            index = self._winner(tried)
            if index is not None:
                try:
                    await self._keep(branches[index], before)
                except BaseException:
                    await self._back_to(before)
                    raise
            return Best(index, tuple(tried))
        finally:
            await self._clear_away()

    async def one_after_the_other(self, candidates: Sequence[str]) -> Best:
        """Each in a branch that finds the shared files as they were; the best so far waits, with its files."""
        before = await self._take()
        files = before  # what they are in the end
        try:
            tried: list[Candidate] = []
            best: AsyncContext | None = None
            for code in candidates:
                worse: AsyncContext | None = await self._branch(before, "shared")
                tried.append(await self._try(code, self._branches[-1]))
                if _winner(tried) == len(tried) - 1:
                    best, worse = worse, best
                    if files is not before:
                        await self._forget(files)
                    files = await self._take(files_only=True)
                if worse is not None:
                    await self._remove(worse)
                await self._box.checkpoints.restore_files(before)
            index = self._winner(tried)
            if best is not None:
                await self._box.checkpoints.restore_files(files)
                await self._keep(best, before)
            return Best(index, tuple(tried))
        except BaseException:
            await self._back_to(before)
            raise
        finally:
            await self._clear_away()

    async def _try(self, code: str, branch: AsyncContext) -> Candidate:
        result = await self._box.run(code, context=branch, timeout=self._timeout)
        if not result.ok:
            return Candidate(code, result, None)
        if isinstance(self._score, str):
            scored = await self._box.run(self._score, context=branch, timeout=self._timeout)
            return Candidate(code, result, _number(scored.text) if scored.ok else None)
        try:
            score = await call_function(self._score, (result,), {}, SCORE_S)
        except Exception as problem:
            self._problem = self._problem or problem
            return Candidate(code, result, None)
        return Candidate(code, result, _number(score))

    def _winner(self, tried: Sequence[Candidate]) -> int | None:
        """The winner's index.  A function that could score none of them is wrong, and its owner wants to know."""
        index = _winner(tried)
        if index is None and self._problem is not None:
            raise self._problem
        return index

    async def _take(self, files_only: bool = False) -> AsyncCheckpoint:
        taken = await self._box.checkpoints.take(pinned=True, files_only=files_only)
        self._checkpoints.append(taken)
        return taken

    async def _forget(self, checkpoint: AsyncCheckpoint) -> None:
        self._checkpoints.remove(checkpoint)
        await self._box.checkpoints.remove(checkpoint)

    async def _branch(self, before: AsyncCheckpoint, files: str) -> AsyncContext:
        branch = await self._box.checkpoints.branch(before, self._context, files)
        self._branches.append(branch)
        return branch

    async def _remove(self, branch: AsyncContext) -> None:
        self._branches.remove(branch)
        await self._box.contexts.remove(branch)

    async def _keep(self, branch: AsyncContext, before: AsyncCheckpoint) -> None:
        await self._box.checkpoints.replace(self._context, branch)
        self._branches.remove(branch)
        self._checkpoints.remove(before)
        await self._box.went_on(before)

    async def _back_to(self, before: AsyncCheckpoint) -> None:
        """The files as they were, unless a candidate was kept."""
        if before in self._checkpoints:
            await self._box.checkpoints.restore_files(before)

    async def _clear_away(self) -> None:
        for branch in list(self._branches):
            await self._remove(branch)
        for checkpoint in list(self._checkpoints):
            await self._forget(checkpoint)


def _job(function: Any, *args: Any) -> Any:
    return lambda: function(*args)


def _winner(tried: Sequence[Candidate]) -> int | None:
    scores = [(candidate.score, -number) for number, candidate in enumerate(tried) if candidate.score is not None]
    return -max(scores)[1] if scores else None


def _number(value: Any) -> float | None:
    value = {"True": True, "False": False}.get(value, value) if isinstance(value, str) else value
    try:
        number = float(str(value).rpartition("(")[2].rstrip(")") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None


async def _variables(box: AsyncSandbox, context: AsyncContext) -> dict[str, dict[str, Any]]:
    told = await box.contexts.call({"method": "variables", "context": context.id, "digest": True})
    found = told.get("variables")
    if not isinstance(found, dict):
        return {}
    return {str(name): facts for name, facts in found.items() if isinstance(facts, dict)}


def _compare(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> VariableChanges:
    return VariableChanges(
        created=tuple(_variable(name, new[name]) for name in new if name not in old),
        changed=tuple(
            _variable(name, facts)
            for name, facts in new.items()
            if name in old and facts.get("digest") != old[name].get("digest")
        ),
        removed=tuple(name for name in old if name not in new),
    )


def _variable(name: str, facts: dict[str, Any]) -> Variable:
    size = facts.get("size")
    return Variable(
        name[:200],
        str(facts.get("type"))[:200],
        size if isinstance(size, int) else 0,
        str(facts.get("shown"))[:200],
    )
