"""Facts about contexts and checkpoints, which a backend reports to the front."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ContextFacts:
    """A context: where cells keep their variables."""

    __slots__ = ("cwd", "env", "id", "is_branch", "is_known", "language", "lost")

    def __init__(
        self,
        name: str,
        language: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        *,
        known: bool = False,
    ) -> None:
        self.id, self.language, self.cwd, self.env = name, language, cwd, env or {}
        self.is_branch = False
        self.lost: dict[str, Any] = {}  # by context: the things that a branch could not take along
        self.is_known = known  # whether the context exists in the backend


class CheckpointFacts:
    """A checkpoint: variables and files as they were."""

    __slots__ = ("id", "lost", "name", "time")

    def __init__(self, identity: str, name: str, time: float, lost: dict[str, Any]) -> None:
        self.id, self.name, self.time = identity, name, time
        self.lost = lost  # by context: the things that a copy of its variables cannot contain
