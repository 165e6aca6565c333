"""Undo for code that runs on a server."""

from __future__ import annotations

from cloche.client import shapes
from cloche.engine.checkpoints import AsyncCheckpoint, AsyncCheckpoints
from cloche.engine.contexts import AsyncContext
from cloche.errors import InvalidRun
from cloche.model.history import Restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncRemoteSandbox


class AsyncRemoteCheckpoints(AsyncCheckpoints):
    """`box.checkpoints`, over HTTP."""

    _box: AsyncRemoteSandbox
    _by_id: dict[str, AsyncCheckpoint]

    async def take(self, name: str = "", **_: bool) -> AsyncCheckpoint:
        """Make one of all contexts and files, when nothing runs."""
        if not isinstance(name, str) or len(name) > 200:
            raise InvalidRun(f"A checkpoint's name is a short text, not {name!r:.100}.")
        async with self._taking, self._quiet():
            taken = self.learn(await self._box.call("POST", "/checkpoints", {"name": name}, timeout=None))
            taken.contexts = tuple(context for context in self._box.contexts.list() if context.known)
        if len(self._by_id) > self._most:
            await self.refresh()  # the server has made room for it
        return taken

    async def restore(self, which: str | AsyncCheckpoint) -> Restored:
        """Make variables and files what they were; contexts made since are gone."""
        checkpoint = self.get(which)
        async with self._quiet():
            told = await self._box.call("POST", f"/checkpoints/{checkpoint.id}/restore", timeout=None)
        await self._box.contexts.refresh()
        return shapes.restored(told)

    async def undo(self) -> Restored:
        """Go back to before the last run."""
        async with self._quiet():
            told = await self._box.call("POST", "/undo", timeout=None)
        await self._box.contexts.refresh()
        await self.refresh()
        return shapes.restored(told)

    async def branch(self, which: str | AsyncCheckpoint | None, source: AsyncContext, files: str) -> AsyncContext:
        """A new context that goes on from a checkpoint's variables, or the live ones."""
        if files not in ("shared", "copy"):
            raise InvalidRun(f"files is 'shared' or 'copy', not {files!r:.100}.")
        request = {"files": files, "context": None if self._box.is_default(source) else source.id}
        if which is not None:
            request["checkpoint"] = self.get(which).id
            return self._box.contexts.learn(await self._box.call("POST", "/fork", request, timeout=None))
        await source.take()
        try:
            return self._box.contexts.learn(await self._box.call("POST", "/fork", request, timeout=None))
        finally:
            await source.free(None)

    async def remove(self, which: str | AsyncCheckpoint) -> None:
        """Forget one; what only it held is freed."""
        checkpoint = self.get(which)
        self._forget(checkpoint.id)
        await self._box.call("DELETE", f"/checkpoints/{checkpoint.id}", safe=False)

    def learn(self, told: dict[str, Any]) -> AsyncCheckpoint:
        """What the server tells of one."""
        known = self._by_id.get(told["id"])
        if known is None:
            known = self._by_id[told["id"]] = AsyncCheckpoint(self._box, told["id"], told["name"], told)
            known.time = told["time"]
        return known

    async def refresh(self) -> None:
        """Learn which there are: something has happened that may have changed that."""
        told = await self._box.items("/checkpoints")
        names = [one["id"] for one in told]
        for name in [name for name in self._by_id if name not in names]:
            self._forget(name)
        for one in told:
            self.learn(one)

    def _forget(self, identity: str) -> None:
        self._by_id.pop(identity).removed = True
