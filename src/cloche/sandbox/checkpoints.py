"""`box.checkpoints`: undo for code.  A checkpoint saves variables and files, and restores them in milliseconds."""

from __future__ import annotations

from cloche.errors import Gone, InvalidRun
from cloche.io.tasks import AsyncLock
from cloche.model.history import Restored
from cloche.sandbox.contexts import AsyncContext, AsyncQuiet
from cloche.sandbox.facts import CheckpointFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.sandbox.sandbox import AsyncSandbox

MAX_CHECKPOINTS = 16  # of one sandbox, by default
MOST = 60  # the largest number that a caller may choose; the agent keeps a few more, for our own use


class AsyncCheckpoint:
    """A saved moment of a session, which can be restored."""

    def __init__(self, box: AsyncSandbox, facts: CheckpointFacts) -> None:
        self._box = box
        self.id, self.name, self.time = facts.id, facts.name, facts.time
        self.lost: dict[str, Any] = facts.lost  # by context: threads, sockets, variables … that a copy lacks
        self.removed = False
        self.contexts: tuple[AsyncContext, ...] = ()  # the contexts of that moment

    def __repr__(self) -> str:
        return f"<checkpoint {self.name or self.id}>"

    @property
    def note(self) -> str:
        """What the checkpoint does not have, in a sentence; empty if it has everything."""
        from cloche.model.losses import losses_text

        return losses_text(self.lost)

    async def restore(self) -> Restored:
        """Bring variables and files back to their state at this checkpoint."""
        return await self._box.restore(self)

    async def branch(self, *, files: str = "shared", context: str | AsyncContext | None = None) -> AsyncContext:
        """Make a new context that continues from this checkpoint."""
        return await self._box.branch(self, files=files, context=context)

    async def remove(self) -> None:
        """Remove this checkpoint."""
        await self._box.checkpoints.remove(self)


class AsyncCheckpoints:
    """`box.checkpoints`: the checkpoints of a sandbox, oldest first."""

    def __init__(self, box: AsyncSandbox, most: int) -> None:
        if type(most) is not int or not 1 <= most <= MOST:
            raise InvalidRun(f"checkpoints must be a number from 1 to {MOST}, not {most!r:.100}.")
        self._box, self._most = box, most
        self._by_id: dict[str, AsyncCheckpoint] = {}
        self._taking = AsyncLock()  # one at a time, or two could have the same name

    async def source(
        self, checkpoint: str | AsyncCheckpoint | None, context: str | AsyncContext | None
    ) -> AsyncContext:
        """Return the context to branch from; with a checkpoint, also one that was removed since."""
        if checkpoint is not None:
            name = "python" if context is None else context if isinstance(context, str) else context.id
            for known in self.get(checkpoint).contexts:
                if known.id == name:
                    return known
        return await self._box.contexts.to_branch(context)

    def list(self) -> list[AsyncCheckpoint]:
        """List all checkpoints, oldest first."""
        return list(self._by_id.values())

    @property
    def is_full(self) -> bool:
        """Whether another checkpoint would take the place of one."""
        return len(self._by_id) >= self._most

    def get(self, which: str | AsyncCheckpoint) -> AsyncCheckpoint:
        """Find a checkpoint by its name or id."""
        if isinstance(which, AsyncCheckpoint):
            if self._by_id.get(which.id) is which:
                return which
        elif isinstance(which, str) and which:
            for checkpoint in self.list():
                if checkpoint.name == which:
                    return checkpoint
            if which in self._by_id:
                return self._by_id[which]
        raise Gone(f"There is no checkpoint {which!r:.100}.", hint="box.checkpoints.list() has all of them.")

    async def take(self, name: str = "") -> AsyncCheckpoint:
        """Make a checkpoint of all contexts and files, once nothing runs."""
        if not isinstance(name, str) or len(name) > 200:
            raise InvalidRun(f"A checkpoint's name is a short text, not {name!r:.100}.")
        async with self._taking:
            async with self.quiet():
                taken = self._learn(await self._box.backend.checkpoints.take(name))
                taken.contexts = tuple(context for context in self._box.contexts.list() if context.known)
            if len(self._by_id) > self._most:
                await self.refresh()  # an old checkpoint may have been removed to make room
        return taken

    async def restore(self, which: str | AsyncCheckpoint) -> Restored:
        """Bring variables and files back to their earlier state; contexts made since are removed."""
        checkpoint = self.get(which)
        async with self.quiet():
            restored = await self._box.backend.checkpoints.restore(checkpoint.id)
            await self._box.contexts.refresh()
        return restored

    async def undo(self) -> Restored:
        """Undo the last run."""
        async with self.quiet():
            restored = await self._box.backend.checkpoints.undo()
            await self._box.contexts.refresh()
        await self.refresh()
        return restored

    async def branch(self, which: str | AsyncCheckpoint | None, source: AsyncContext, files: str) -> AsyncContext:
        """Make a new context that continues from the variables of a checkpoint, or from the live ones."""
        if files not in ("shared", "copy"):
            raise InvalidRun(f"files is 'shared' or 'copy', not {files!r:.100}.")
        backend, contexts = self._box.backend.checkpoints, self._box.contexts
        if which is not None:
            return contexts.learn(await backend.branch(self.get(which).id, source.facts, files))
        await source.take()  # a context in use is forked when its cell is done
        try:
            return contexts.learn(await backend.branch(None, source.facts, files))
        finally:
            await source.free(None)

    async def remove(self, which: str | AsyncCheckpoint) -> None:
        """Remove a checkpoint, and free the memory and disk space that only it used."""
        checkpoint = self.get(which)
        self._forget(checkpoint.id)
        await self._box.backend.checkpoints.remove(checkpoint.id)

    def quiet(self) -> AsyncQuiet:
        """A `with` block in which nothing runs in any context."""
        return AsyncQuiet(self._box.contexts.list())

    async def remember(self) -> None:
        """Make a checkpoint for `undo` before a run, unless the backend does that by itself."""
        async with self._taking:
            await self._box.backend.checkpoints.remember(self.quiet)

    async def refresh(self) -> None:
        """Update the list of checkpoints, after an operation that may have changed it."""
        found = await self._box.backend.checkpoints.list()
        names = {facts.id for facts in found}
        for name in [name for name in self._by_id if name not in names]:
            self._forget(name)
        for facts in found:
            self._learn(facts)

    def _learn(self, facts: CheckpointFacts) -> AsyncCheckpoint:
        known = self._by_id.get(facts.id)
        if known is None:
            known = self._by_id[facts.id] = AsyncCheckpoint(self._box, facts)
        return known

    def _forget(self, identity: str) -> None:
        self._by_id.pop(identity).removed = True
