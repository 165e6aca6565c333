"""Checkpoints of a sandbox of this host: the agent copies variables and files; this module keeps the list."""

from __future__ import annotations

from time import time

from cloche.errors import ClocheError, FileProblem, Gone, InvalidRun, Refused
from cloche.model.history import Best, FileChanges, Restored
from cloche.sandbox.facts import CheckpointFacts, ContextFacts
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Callable, Sequence
    from typing import Any

    from cloche.engine.attempts import AsyncHostTrial
    from cloche.engine.sandbox import AsyncHostSandbox
    from cloche.model.result import Result
    from cloche.sandbox.backend import AsyncSession

_MOST_UNDONE = 60  # most runs that can be undone
_FILES_ONLY = {"contexts": False}


class AsyncHostCheckpoints:
    """The checkpoints of one sandbox."""

    def __init__(self, box: AsyncHostSandbox, session: AsyncSession, most: int, undo: bool) -> None:
        self._box, self._session, self._most, self._undo = box, session, most, undo
        self._by_id: dict[str, CheckpointFacts] = {}
        self._contexts: dict[str, tuple[ContextFacts, ...]] = {}  # by checkpoint: the contexts that existed then
        self._pinned: set[str] = set()  # checkpoints for internal use, neither listed nor counted
        self._made = 0
        self._before_runs: list[str | ClocheError] = []  # per run: a checkpoint for `undo`, or why there is none

    async def take(self, name: str) -> CheckpointFacts:
        """Make a checkpoint; an old one without a name may be removed to make room."""
        if name and any(name == known.name for known in self._by_id.values()):
            raise InvalidRun(f"There is a checkpoint {name!r} already.", hint="Remove it, or choose another name.")
        await self._make_room()
        return await self._take(name)

    async def take_pinned(self, *, files_only: bool = False) -> str:
        """Make a checkpoint for internal use, once nothing runs; return its id."""
        async with self._session.quiet():
            taken = await self._take("", files_only)
            self._pinned.add(taken.id)
        return taken.id

    async def _take(self, name: str, files_only: bool = False) -> CheckpointFacts:
        self._made += 1
        identity = f"checkpoint-{self._made}"
        try:
            answer = await self._call({"method": "checkpoint", "name": identity, "contexts": not files_only})
        except ClocheError:
            raise
        except BaseException:  # this task was cancelled, and the agent does not know that
            self._post({"method": "forget checkpoint", "name": identity})
            raise
        taken = self._by_id[identity] = CheckpointFacts(identity, name, time(), _dictionary(answer.get("lost")))
        self._contexts[identity] = self._box.sessions.known()
        return taken

    async def remember(self, quiet: Callable[[], Any]) -> None:
        """Make a checkpoint for `undo`.  Without room for one the code still runs: it may be there to free space."""
        try:
            await self._make_room()
            async with quiet():
                self._before_runs.append((await self._take("")).id)
        except (FileProblem, Refused) as problem:
            self._before_runs.append(problem)
        del self._before_runs[:-_MOST_UNDONE]

    async def restore(self, checkpoint: str) -> Restored:
        """Bring variables and files back to their earlier state; contexts made since are removed."""
        answer = await self._call({"method": "restore", "name": checkpoint})
        self._box.sessions.set(self._contexts[checkpoint])
        files = _check_files(answer, "Variables are what they were, but ")
        names = answer.get("restarted")
        restarted = tuple(str(name) for name in names) if isinstance(names, list) else ()
        return Restored(_dictionary(answer.get("lost")), restarted, files)

    async def undo(self) -> Restored:
        """Undo the last run."""
        if not self._undo:
            raise InvalidRun("This sandbox keeps no checkpoints of its runs.", hint="Make it with Sandbox(undo=True).")
        last = self._before_runs[-1] if self._before_runs else None
        if isinstance(last, ClocheError):
            raise Gone(f"The last run cannot be undone, for no checkpoint could be made: {last.message}", last.hint)
        if last is None or last not in self._by_id:
            raise Gone("There is no run left to undo.")
        restored = await self.restore(last)
        self._before_runs.pop()
        await self.remove(last)
        return restored

    async def restore_files(self, checkpoint: str) -> None:
        """Bring the files back to their earlier state; variables stay."""
        _check_files(await self._call({"method": "restore", "name": checkpoint, **_FILES_ONLY}), "")

    async def changes(self, checkpoint: str) -> FileChanges:
        """List the files that have changed since a checkpoint."""
        found = _dictionary((await self._call({"method": "changes", "name": checkpoint})).get("changes"))
        return FileChanges(*(_names(found.get(kind)) for kind in ("created", "changed", "removed")))

    async def branch(self, checkpoint: str | None, source: ContextFacts, files: str) -> ContextFacts:
        """Make a new context that continues from the variables of a checkpoint, or from the live ones."""
        branch = self._box.sessions.new(source.language, source.cwd, {})
        branch.is_branch = True
        request = {"method": "branch", "context": source.id, "new": branch.id, "files": files, "name": checkpoint}
        try:
            answer = await self._call(request)
        except ClocheError:
            raise
        except BaseException:
            self._post({"method": "remove context", "context": branch.id})
            raise
        if isinstance(answer.get("cwd"), str):
            branch.cwd = answer["cwd"]
        branch.lost = _dictionary(answer.get("lost"))
        self._box.sessions.keep(branch)
        return branch

    async def replace(self, context: ContextFacts, branch: ContextFacts) -> None:
        """Continue a context as one of its branches."""
        async with self._session.turn(context.id):
            await self._call({"method": "replace context", "context": context.id, "by": branch.id, "name": ""})
        self._box.sessions.forget(branch.id)

    async def remove(self, checkpoint: str) -> None:
        """Remove a checkpoint, and free the memory and disk space that only it used."""
        del self._by_id[checkpoint]
        del self._contexts[checkpoint]
        self._pinned.discard(checkpoint)
        await self._call({"method": "forget checkpoint", "name": checkpoint})

    async def went_on(self, before: str) -> None:
        """Count a kept attempt as a run that can be undone."""
        if self._undo:
            self._pinned.discard(before)
            self._before_runs.append(before)
        else:
            await self.remove(before)

    async def attempt(self, source: ContextFacts, code: str, timeout: float | None) -> AsyncHostTrial:
        """Run code in a branch of a context, and return its changes."""
        from cloche.engine.attempts import attempt

        return await attempt(self._box, self._session, source, code, timeout)

    async def best_of(
        self,
        source: ContextFacts,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> Best:
        """Run candidates in branches of a context, and continue it as the best."""
        from cloche.engine.attempts import best_of

        return await best_of(self._box, self._session, source, candidates, score, timeout)

    async def list(self) -> list[CheckpointFacts]:
        """List the owner's checkpoints, oldest first."""
        return [*self._seen()]

    def _seen(self) -> tuple[CheckpointFacts, ...]:
        return tuple(known for known in self._by_id.values() if known.id not in self._pinned)

    async def _make_room(self) -> None:
        while len(self._seen()) >= self._most:
            unnamed = next((known for known in self._seen() if not known.name), None)
            if unnamed is None:
                raise Refused(
                    f"There are {self._most} named checkpoints already.",
                    hint="Remove one, or make the sandbox with a higher number for checkpoints=.",
                )
            await self.remove(unnamed.id)

    def _post(self, request: dict[str, Any]) -> None:
        """Send a request without waiting for the answer."""
        operation = self._box.link.open()
        self._box.link.post(frames.encode_json(operation.number, frames.CALL, request))
        self._box.link.close(operation)

    async def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        return await self._box.files.call(request, str(request["name"] or request.get("context")))


def _check_files(answer: dict[str, Any], prefix: str) -> dict[str, Any]:
    files = _dictionary(answer.get("files"))
    if files.get("problem"):
        message = f"{prefix}not all files could be restored: {str(files['problem'])[:500]}."
        raise FileProblem(message[0].upper() + message[1:], "Free some disk space and restore again.")
    return files


def _dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()
