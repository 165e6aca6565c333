# Generated from src/cloche/client/checkpoints.py by scripts/blocking.py: edit that file instead.
"""Undo for code that runs on a server."""

from __future__ import annotations

from cloche.blocking.engine.checkpoints import Checkpoint, Checkpoints
from cloche.blocking.engine.contexts import Context
from cloche.client import shapes
from cloche.errors import InvalidRun
from cloche.model.history import Restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.client.sandbox import RemoteSandbox


class RemoteCheckpoints(Checkpoints):
    """`box.checkpoints`, over HTTP."""

    _box: RemoteSandbox
    _by_id: dict[str, Checkpoint]

    def take(self, name: str = "", **_: bool) -> Checkpoint:
        """Make one of all contexts and files, when nothing runs."""
        if not isinstance(name, str) or len(name) > 200:
            raise InvalidRun(f"A checkpoint's name is a short text, not {name!r:.100}.")
        with self._taking, self._quiet():
            taken = self.learn(self._box.call("POST", "/checkpoints", {"name": name}, timeout=None))
            taken.contexts = tuple(context for context in self._box.contexts.list() if context.known)
        if len(self._by_id) > self._most:
            self.refresh()  # the server has made room for it
        return taken

    def restore(self, which: str | Checkpoint) -> Restored:
        """Make variables and files what they were; contexts made since are gone."""
        checkpoint = self.get(which)
        with self._quiet():
            told = self._box.call("POST", f"/checkpoints/{checkpoint.id}/restore", timeout=None)
        self._box.contexts.refresh()
        return shapes.restored(told)

    def undo(self) -> Restored:
        """Go back to before the last run."""
        with self._quiet():
            told = self._box.call("POST", "/undo", timeout=None)
        self._box.contexts.refresh()
        self.refresh()
        return shapes.restored(told)

    def branch(self, which: str | Checkpoint | None, source: Context, files: str) -> Context:
        """A new context that goes on from a checkpoint's variables, or the live ones."""
        if files not in ("shared", "copy"):
            raise InvalidRun(f"files is 'shared' or 'copy', not {files!r:.100}.")
        request = {"files": files, "context": None if self._box.is_default(source) else source.id}
        if which is not None:
            request["checkpoint"] = self.get(which).id
            return self._box.contexts.learn(self._box.call("POST", "/fork", request, timeout=None))
        source.take()
        try:
            return self._box.contexts.learn(self._box.call("POST", "/fork", request, timeout=None))
        finally:
            source.free(None)

    def remove(self, which: str | Checkpoint) -> None:
        """Forget one; what only it held is freed."""
        checkpoint = self.get(which)
        self._forget(checkpoint.id)
        self._box.call("DELETE", f"/checkpoints/{checkpoint.id}", safe=False)

    def learn(self, told: dict[str, Any]) -> Checkpoint:
        """What the server tells of one."""
        known = self._by_id.get(told["id"])
        if known is None:
            known = self._by_id[told["id"]] = Checkpoint(self._box, told["id"], told["name"], told)
            known.time = told["time"]
        return known

    def refresh(self) -> None:
        """Learn which there are: something has happened that may have changed that."""
        told = self._box.items("/checkpoints")
        names = [one["id"] for one in told]
        for name in [name for name in self._by_id if name not in names]:
            self._forget(name)
        for one in told:
            self.learn(one)

    def _forget(self, identity: str) -> None:
        self._by_id.pop(identity).removed = True
