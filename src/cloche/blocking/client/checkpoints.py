# Generated from src/cloche/client/checkpoints.py by scripts/blocking.py: edit that file instead.
"""Checkpoints of a sandbox on a server."""

from __future__ import annotations

from cloche.blocking.client.attempts import ServerTrial, attempt, best_of
from cloche.blocking.client.sessions import context_facts, is_default
from cloche.client import shapes
from cloche.model.history import Best, Restored
from cloche.sandbox.facts import CheckpointFacts, ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Callable, Sequence
    from typing import Any

    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.model.result import Result


class ServerCheckpoints:
    """The checkpoints of one sandbox."""

    def __init__(self, box: ServerSandbox) -> None:
        self._box = box

    def take(self, name: str) -> CheckpointFacts:
        """Make a checkpoint; the server may remove an old one without a name for it."""
        return _facts(self._box.call("POST", "/checkpoints", {"name": name}, timeout=None))

    def remember(self, _quiet: Callable[[], Any]) -> None:
        """Do nothing: the server makes checkpoints for `undo` by itself."""

    def restore(self, checkpoint: str) -> Restored:
        """Bring variables and files back to their earlier state."""
        return shapes.restored(self._box.call("POST", f"/checkpoints/{checkpoint}/restore", timeout=None))

    def undo(self) -> Restored:
        """Undo the last run."""
        return shapes.restored(self._box.call("POST", "/undo", timeout=None))

    def branch(self, checkpoint: str | None, source: ContextFacts, files: str) -> ContextFacts:
        """Make a new context that continues from the variables of a checkpoint, or from the live ones."""
        request = {"files": files, "context": _name(source)}
        if checkpoint is not None:
            request["checkpoint"] = checkpoint
        return context_facts(self._box.call("POST", "/fork", request, timeout=None))

    def remove(self, checkpoint: str) -> None:
        """Remove a checkpoint."""
        self._box.call("DELETE", f"/checkpoints/{checkpoint}", safe=False)

    def list(self) -> list[CheckpointFacts]:
        """List all checkpoints, oldest first."""
        return [_facts(item) for item in self._box.items("/checkpoints")]

    def attempt(self, source: ContextFacts, code: str, timeout: float | None) -> ServerTrial:
        """Run code in a branch of a context, and return its changes."""
        return attempt(self._box, {"code": code, "context": _name(source), "timeout": timeout})

    def best_of(
        self,
        source: ContextFacts,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> Best:
        """Run candidates in branches of a context, and continue it as the best."""
        request = {"candidates": candidates, "context": _name(source), "timeout": timeout}
        return best_of(self._box, request, score)


def _name(context: ContextFacts) -> str | None:
    return None if is_default(context) else context.id


def _facts(fields: dict[str, Any]) -> CheckpointFacts:
    return CheckpointFacts(fields["id"], fields["name"], fields["time"], fields.get("lost") or {})
