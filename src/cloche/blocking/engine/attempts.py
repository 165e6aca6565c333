# Generated from src/cloche/engine/attempts.py by scripts/blocking.py: edit that file instead.
"""Attempts on this host: code runs in a branch, which is then kept or discarded; the best of several candidates."""

from __future__ import annotations

from _collections_abc import Callable, Sequence
from math import isfinite
from re import compile

from cloche.blocking.io.tasks import at_once, call_function
from cloche.blocking.sandbox.tools import SCORE_S
from cloche.model.history import Best, Candidate, FileChanges, Variable, VariableChanges
from cloche.model.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.blocking.sandbox.backend import Session
    from cloche.sandbox.facts import ContextFacts

# Code that contains one of these strings, or an absolute path, may use the shared files, no matter what its working
# directory is.  Files of the system are only read, and those in /tmp are shared in any case.
_ABSOLUTE = ("expanduser", "~/", "Path.home")
_ABSOLUTE_PATH = compile(r"""(?<![\w.)\]/])/(?!(?:tmp|usr|bin|etc|opt|dev|proc|lib)\b)\w""")


class HostTrial:
    """Code that has run in a branch, and waits to be kept or discarded."""

    def __init__(
        self,
        box: HostSandbox,
        context: ContextFacts,
        branch: ContextFacts,
        before: str,
        result: Result,
        files: FileChanges,
        variables: VariableChanges,
    ) -> None:
        self._box, self._context, self._branch, self._before = box, context, branch, before
        self.result, self.files, self.variables = result, files, variables

    def keep(self) -> None:
        """Continue the context as the branch."""
        self._box.checkpoints.replace(self._context, self._branch)
        self._box.checkpoints.went_on(self._before)

    def discard(self) -> None:
        """Bring variables and files back to their earlier state."""
        self._box.sessions.remove(self._branch)
        self._box.checkpoints.restore_files(self._before)
        self._box.checkpoints.remove(self._before)


def attempt(box: HostSandbox, session: Session, context: ContextFacts, code: str, timeout: float | None) -> HostTrial:
    """Run code in a branch of a context, and return its changes."""
    before = box.checkpoints.take_pinned()
    branch: ContextFacts | None = None
    try:
        branch = box.checkpoints.branch(before, context, "shared")
        old = box.sessions.variables(branch.id)
        result = session.run_in(branch, code, timeout)
        new = box.sessions.variables(branch.id)
        files = box.checkpoints.changes(before)
    except BaseException:
        if branch is not None:
            box.sessions.remove(branch)
        box.checkpoints.restore_files(before)
        box.checkpoints.remove(before)
        session.refresh()
        raise
    return HostTrial(box, context, branch, before, result, files, _compare(old, new))


def best_of(
    box: HostSandbox,
    session: Session,
    context: ContextFacts,
    candidates: Sequence[str],
    score: str | Callable[[Result], float],
    timeout: float | None,
) -> Best:
    """Run candidates in branches of a context, and continue it as the one with the highest score."""
    contest = Contest(box, session, context, score, timeout)
    if any(_uses_shared_files(code) for code in candidates):
        return contest.one_after_the_other(candidates)
    return contest.side_by_side(candidates)


class Contest:
    """Several candidates from one starting point."""

    def __init__(
        self,
        box: HostSandbox,
        session: Session,
        context: ContextFacts,
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> None:
        self._box, self._session, self._context = box, session, context
        self._score, self._timeout = score, timeout
        self._branches: list[ContextFacts] = []  # branches that are neither kept nor removed yet
        self._checkpoints: list[str] = []
        self._problem: Exception | None = None  # the first exception that the owner's function raised

    def side_by_side(self, candidates: Sequence[str]) -> Best:
        """Run each candidate in a branch with files of its own; the winner's files become the shared files."""
        before = self._take()
        try:
            branches = [self._branch(before, "copy") for _ in candidates]
            jobs = [_job(self._try, code, branch) for code, branch in zip(candidates, branches, strict=True)]
            tried = at_once(jobs)
            index = self._winner(tried)
            if index is not None:
                try:
                    self._keep(branches[index], before)
                except BaseException:
                    self._back_to(before)
                    raise
            return Best(index, tuple(tried))
        finally:
            self._clear_away()

    def one_after_the_other(self, candidates: Sequence[str]) -> Best:
        """Run each candidate in a branch with the original shared files; the best so far waits, with its files."""
        before = self._take()
        files = before  # the state of the files at the end
        try:
            tried: list[Candidate] = []
            best: ContextFacts | None = None
            for code in candidates:
                worse: ContextFacts | None = self._branch(before, "shared")
                tried.append(self._try(code, self._branches[-1]))
                if _winner(tried) == len(tried) - 1:
                    best, worse = worse, best
                    if files is not before:
                        self._forget(files)
                    files = self._take(files_only=True)
                if worse is not None:
                    self._remove(worse)
                self._box.checkpoints.restore_files(before)
            index = self._winner(tried)
            if best is not None:
                self._box.checkpoints.restore_files(files)
                self._keep(best, before)
            return Best(index, tuple(tried))
        except BaseException:
            self._back_to(before)
            raise
        finally:
            self._clear_away()

    def _try(self, code: str, branch: ContextFacts) -> Candidate:
        result = self._session.run_in(branch, code, self._timeout)
        if not result.ok:
            return Candidate(code, result, None)
        if isinstance(self._score, str):
            scored = self._session.run_in(branch, self._score, self._timeout)
            return Candidate(code, result, _number(scored.text) if scored.ok else None)
        try:
            score = call_function(self._score, (result,), {}, SCORE_S)
        except Exception as problem:
            self._problem = self._problem or problem
            return Candidate(code, result, None)
        return Candidate(code, result, _number(score))

    def _winner(self, tried: Sequence[Candidate]) -> int | None:
        """Return the winner's index.  If the function could score no candidate, raise its error: it is wrong."""
        index = _winner(tried)
        if index is None and self._problem is not None:
            raise self._problem
        return index

    def _take(self, files_only: bool = False) -> str:
        taken = self._box.checkpoints.take_pinned(files_only=files_only)
        self._checkpoints.append(taken)
        return taken

    def _forget(self, checkpoint: str) -> None:
        self._checkpoints.remove(checkpoint)
        self._box.checkpoints.remove(checkpoint)

    def _branch(self, before: str, files: str) -> ContextFacts:
        branch = self._box.checkpoints.branch(before, self._context, files)
        self._branches.append(branch)
        return branch

    def _remove(self, branch: ContextFacts) -> None:
        self._branches.remove(branch)
        self._box.sessions.remove(branch)

    def _keep(self, branch: ContextFacts, before: str) -> None:
        self._box.checkpoints.replace(self._context, branch)
        self._branches.remove(branch)
        self._checkpoints.remove(before)
        self._box.checkpoints.went_on(before)

    def _back_to(self, before: str) -> None:
        """Restore the files, unless a candidate was kept."""
        if before in self._checkpoints:
            self._box.checkpoints.restore_files(before)

    def _clear_away(self) -> None:
        for branch in list(self._branches):
            self._remove(branch)
        for checkpoint in list(self._checkpoints):
            self._forget(checkpoint)
        self._session.refresh()


def _uses_shared_files(code: str) -> bool:
    return any(place in code for place in _ABSOLUTE) or _ABSOLUTE_PATH.search(code) is not None


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
