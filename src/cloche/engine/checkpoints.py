"""Undo for code: checkpoints of a session's variables and files, restored or branched from in milliseconds."""

from __future__ import annotations

from time import time

from cloche.engine.contexts import AsyncContext
from cloche.errors import ClocheError, FileProblem, Gone, InvalidRun, Refused
from cloche.io.tasks import AsyncLock
from cloche.model.history import FileChanges, Moment, Restored
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.sandbox import AsyncSandbox

MAX_CHECKPOINTS = 16  # of one sandbox, unless it says otherwise
MOST = 60  # that it may ask for; the agent keeps a few more, for our own use
_FILES_ONLY = {"contexts": False}


class AsyncCheckpoint:
    """A moment of a session that can be gone back to."""

    def __init__(self, box: AsyncSandbox, identity: str, name: str, told: dict[str, Any]) -> None:
        self._box = box
        self.id, self.name, self.time = identity, name, time()
        self.lost: dict[str, Any] = _dictionary(told.get("lost"))  # what the copies could not carry
        self.removed = self.pinned = False  # pinned: for our own use, neither listed nor counted
        self.contexts: tuple[AsyncContext, ...] = ()  # those that there were

    def __repr__(self) -> str:
        return f"<checkpoint {self.name or self.id}>"

    async def restore(self) -> Restored:
        """Go back to it: variables and files as they were."""
        return await self._box.restore(self)

    async def branch(self, *, files: str = "shared", context: str | AsyncContext | None = None) -> AsyncContext:
        """A new context that goes on from it."""
        return await self._box.branch(self, files=files, context=context)

    async def remove(self) -> None:
        """Forget it."""
        await self._box.checkpoints.remove(self)


class AsyncCheckpoints:
    """`box.checkpoints`: those of a sandbox, oldest first."""

    def __init__(self, box: AsyncSandbox, most: int) -> None:
        if type(most) is not int or not 1 <= most <= MOST:
            raise InvalidRun(f"checkpoints must be a number from 1 to {MOST}, not {most!r:.100}.")
        self._box, self._most = box, most
        self._by_id: dict[str, AsyncCheckpoint] = {}
        self._made = 0
        self._taking = AsyncLock()  # one at a time, or two could have the same name

    def list(self) -> list[AsyncCheckpoint]:
        """All that there are."""
        return [known for known in self._by_id.values() if not known.pinned]

    def get(self, which: str | AsyncCheckpoint) -> AsyncCheckpoint:
        """The checkpoint of this name or id."""
        if isinstance(which, AsyncCheckpoint):
            if self._by_id.get(which.id) is which:
                return which
        elif isinstance(which, str) and which:
            for checkpoint in self.list():
                if checkpoint.name == which:
                    return checkpoint
            if which in self._by_id:
                return self._by_id[which]
        raise Gone(f"There is no checkpoint {which!r:.100}.", hint="`box.checkpoints.list()` has those that there are.")

    async def take(self, name: str = "", *, pinned: bool = False, files_only: bool = False) -> AsyncCheckpoint:
        """Make one of all contexts and files, when nothing runs; a pinned one is for our own use, until removed."""
        if not isinstance(name, str) or len(name) > 200:
            raise InvalidRun(f"A checkpoint's name is a short text, not {name!r:.100}.")
        async with self._taking:
            if name and any(name == known.name for known in self._by_id.values()):
                raise InvalidRun(f"There is a checkpoint {name!r} already.", hint="Remove it, or choose another name.")
            if not pinned:
                await self._make_room()
            self._made += 1
            identity = f"checkpoint-{self._made}"
            async with self._quiet():
                try:
                    told = await self._call({"method": "checkpoint", "name": identity, "contexts": not files_only})
                except ClocheError:
                    raise
                except BaseException:  # we are called off, and the agent does not know
                    self._post({"method": "forget checkpoint", "name": identity})
                    raise
                contexts = tuple(context for context in self._box.contexts.list() if context.known)
            checkpoint = AsyncCheckpoint(self._box, identity, name, told)
            checkpoint.pinned, checkpoint.contexts = pinned, contexts
            self._by_id[identity] = checkpoint
            return checkpoint

    async def restore(self, which: str | AsyncCheckpoint) -> Restored:
        """Make variables and files what they were; contexts made since are gone."""
        checkpoint = self.get(which)
        async with self._quiet():
            told = await self._call({"method": "restore", "name": checkpoint.id})
            self._box.contexts.set(checkpoint.contexts)
        files = _check_files(told, "Variables are what they were, but ")
        names = told.get("restarted")
        restarted = tuple(str(name) for name in names) if isinstance(names, list) else ()
        return Restored(_dictionary(told.get("lost")), restarted, files)

    async def restore_files(self, checkpoint: AsyncCheckpoint) -> None:
        """Make the files what they were, and leave the variables."""
        told = await self._call({"method": "restore", "name": checkpoint.id, **_FILES_ONLY})
        _check_files(told, "")

    async def changes(self, checkpoint: AsyncCheckpoint) -> FileChanges:
        """What has changed in the files since."""
        told = _dictionary((await self._call({"method": "changes", "name": checkpoint.id})).get("changes"))
        return FileChanges(*(_names(told.get(kind)) for kind in ("created", "changed", "removed")))

    async def branch(self, which: str | AsyncCheckpoint | None, source: AsyncContext, files: str) -> AsyncContext:
        """A new context that goes on from a checkpoint's variables, or the live ones."""
        if files not in ("shared", "copy"):
            raise InvalidRun(f"files is 'shared' or 'copy', not {files!r:.100}.")
        checkpoint = None if which is None else self.get(which)
        branch = self._box.contexts.add_branch(source)
        request: dict[str, Any] = {"method": "branch", "context": source.id, "new": branch.id, "files": files}
        request["name"] = None if checkpoint is None else checkpoint.id
        if checkpoint is None:
            await source.take()  # a context in use is forked when it is done
        try:
            told = await self._call(request)
        except ClocheError:
            raise
        except BaseException:
            self._post({"method": "remove context", "context": branch.id})
            raise
        finally:
            if checkpoint is None:
                await source.free(None)
        if isinstance(told.get("cwd"), str):
            branch.cwd = told["cwd"]
        self._box.contexts.keep(branch)
        return branch

    async def replace(self, context: AsyncContext, branch: AsyncContext) -> None:
        """Let a context go on as one of its branches."""
        await context.take()
        try:
            await self._call({"method": "replace context", "context": context.id, "by": branch.id, "name": ""})
        finally:
            await context.free(None)
        self._box.contexts.forget(branch.id)

    async def remove(self, which: str | AsyncCheckpoint) -> None:
        """Forget one; what only it held is freed."""
        checkpoint = self.get(which)
        del self._by_id[checkpoint.id]
        checkpoint.removed = True
        await self._call({"method": "forget checkpoint", "name": checkpoint.id})

    async def _make_room(self) -> None:
        while len(self.list()) >= self._most:
            unnamed = next((known for known in self.list() if not known.name), None)
            if unnamed is None:
                raise Refused(
                    f"There are {self._most} named checkpoints already.",
                    hint="Remove one, or make the sandbox with checkpoints= more.",
                )
            await self.remove(unnamed)

    def _post(self, request: dict[str, Any]) -> None:
        """Ask for something without waiting for the answer."""
        operation = self._box.link.open()
        self._box.link.post(frames.encode_json(operation.number, frames.CALL, request))
        self._box.link.close(operation)

    def _quiet(self) -> AsyncQuiet:
        return AsyncQuiet(self._box.contexts.list())

    async def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        return await self._box.files.call(request, str(request["name"] or request.get("context")))


class AsyncQuiet:
    """All contexts, with nothing running in any of them."""

    def __init__(self, contexts: list[AsyncContext]) -> None:
        self._contexts = sorted(contexts, key=lambda context: context.id)  # everybody takes them in the same order
        self._taken: list[AsyncContext] = []

    async def __aenter__(self) -> None:
        try:
            for context in self._contexts:
                try:
                    await context.take()
                except Gone:
                    continue  # it was removed meanwhile
                self._taken.append(context)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        while self._taken:
            await self._taken.pop().free(None)


def checkpoint_moment(checkpoint: AsyncCheckpoint, kind: str = "checkpoint") -> Moment:
    """Its entry in the history."""
    return Moment(kind, time(), name=checkpoint.name or checkpoint.id)


def _check_files(told: dict[str, Any], prefix: str) -> dict[str, Any]:
    files = _dictionary(told.get("files"))
    if files.get("problem"):
        message = f"{prefix}not all files could be restored: {str(files['problem'])[:500]}."
        raise FileProblem(message[0].upper() + message[1:], "Free some disk space and restore again.")
    return files


def _dictionary(told: Any) -> dict[str, Any]:
    return told if isinstance(told, dict) else {}


def _names(told: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in told) if isinstance(told, list) else ()
