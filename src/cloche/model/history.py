"""What has happened in a session, and what became of its state."""

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
    error: str | None = None  # of a run: its kind, None when it ended well
    name: str = ""  # of a checkpoint


class Restored(Plain):
    """What could not be brought back: what each context had (threads, sockets, children), and who starts anew."""

    lost: dict[str, Any]
    restarted: tuple[str, ...]  # contexts without a copy: other languages, or not started then
    files: dict[str, Any]  # how many were written, removed, unchanged


class FileChanges(Plain):
    """What differs in /sandbox; paths relative to it."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed)


class Variable(Plain):
    """A variable of a context, as far as it can be told in a line."""

    name: str
    type: str
    size: int  # bytes, as far as Python knows
    shown: str  # its beginning, as text


class VariableChanges(Plain):
    """What differs in the variables of a context."""

    created: tuple[Variable, ...] = ()
    changed: tuple[Variable, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed)


class Candidate(Plain):
    """One of several attempts at the same thing."""

    code: str
    result: Result
    score: float | None  # None: it failed, or could not be scored


class Best(Plain):
    """What came of several candidates; `index` is the winner's, None when none could be kept."""

    index: int | None
    candidates: tuple[Candidate, ...]

    @property
    def result(self) -> Result | None:
        """The winner's result."""
        return None if self.index is None else self.candidates[self.index].result
