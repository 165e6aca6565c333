"""The history of a session: its checkpoints, what restoring one changed, attempts and their outcome."""

from __future__ import annotations

from cloche.model.plain import Plain
from cloche.model.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Moment(Plain):
    """An entry of a session's history; `kind` is run, checkpoint, restore, branch, restart or undo."""

    kind: str
    time: float  # seconds since the epoch
    context: str = ""
    code: str = ""  # of a run
    error: str | None = None  # of a run that failed: the kind of its error
    name: str = ""  # of a checkpoint


class Restored(Plain):
    """The outcome of going back to a checkpoint: what was lost, and which contexts started with no variables."""

    # By context: threads, sockets and child processes, which no checkpoint can keep; `variables` says why those of the
    # context are lost: "language" or "killed".
    lost: dict[str, Any]
    restarted: tuple[str, ...]  # contexts that the checkpoint has no copy of: other languages, or started later
    files: dict[str, Any]  # how many files were written, removed and left unchanged

    @property
    def note(self) -> str:
        """What did not come back, in a sentence; empty if everything did."""
        from cloche.model.losses import losses_text

        return losses_text(self.lost)


class FileChanges(Plain):
    """The files that differ: paths relative to /sandbox, and absolute paths for those elsewhere, such as in /app."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed)


class Variable(Plain):
    """A variable of a context, in one line."""

    name: str
    type: str
    size: int  # bytes, as far as its library can tell
    shown: str  # the beginning of its value, as text
    shape: str = ""  # its number of items, or its dimensions; empty for a value without parts


class VariableList(Plain):
    """The variables of a context, as far as they fit: `total` counts all that were searched for."""

    items: tuple[Variable, ...]
    total: int
    state: str = "ready"  # or "busy": code is running; "unsupported": the language's kernel cannot list them


class VariableChanges(Plain):
    """The variables of a context that differ."""

    created: tuple[Variable, ...] = ()
    changed: tuple[Variable, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed)


class Candidate(Plain):
    """One of several pieces of code that were tried for the same task."""

    code: str
    result: Result
    score: float | None  # None when the code failed or could not be scored


class Best(Plain):
    """The outcome of several candidates; `index` is that of the winner, or None when none could be kept."""

    index: int | None
    candidates: tuple[Candidate, ...]

    @property
    def result(self) -> Result | None:
        """The winner's result."""
        return None if self.index is None else self.candidates[self.index].result
