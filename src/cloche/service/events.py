"""The events in the server's logs, in addition to those of `cloche.model.events`."""

from __future__ import annotations

from typing import Any

from cloche.errors import ClocheError
from cloche.model.events import Building, Cleared, Exit, Failed, Shown, Started, Waiting
from cloche.model.history import Best, FileChanges, VariableChanges
from cloche.model.plain import Plain
from cloche.model.result import Result


class OutputPiece(Plain):
    """A piece of output, from "stdout" or "stderr".

    `data` are the bytes as they came.  `whole` are the same bytes for readers of text: a character that was split in
    two belongs to the event that brought its last byte.  Either may be empty.
    """

    kind: str
    data: bytes
    whole: bytes


class RunStarted(Plain):
    """The program or the cell of a run has begun."""

    run_id: str
    pid: int
    kind: str = "started"


class RunEnded(Plain):
    """A run is over and its outcome is recorded."""

    run_id: str
    context: str
    result: Result
    recorded: str = ""  # the result in the store's format, if the store keeps all of it
    kind: str = "end"


class NoResult(Plain):
    """A run or a command ended without a result."""

    problem: ClocheError
    kind: str = "error"


class ToolRequested(Plain):
    """The code calls a tool; the client that follows the run must answer."""

    call: int
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    kind: str = "tool"


class ScoreRequested(Plain):
    """A contest needs the score of a result; the client that follows the run must answer."""

    call: int
    run_id: str
    result: Result
    kind: str = "score"


class AttemptEnded(Plain):
    """An attempt is over; the caller may now keep or discard it."""

    id: str
    run_id: str
    result: Result
    files: FileChanges
    variables: VariableChanges
    kind: str = "end"


class ContestEnded(Plain):
    """All candidates of a contest have run."""

    best: Best
    kind: str = "end"


class Gap(Plain):
    """Stands for the events from `first` to `last`, which the log has dropped."""

    first: int
    last: int
    kind: str = "gap"


class Notice(Plain):
    """A small event in the life of a sandbox: "file.write", "sandbox.paused" …"""

    kind: str
    fields: dict[str, Any]


class OfRun(Plain):
    """An event of a run, in the feed of its sandbox."""

    run_id: str
    event: LoggedEvent
    code: str = ""  # at the start of a run: the beginning of its code

    @property
    def kind(self) -> str:
        return f"run.{self.event.kind}"


class OfCommand(Plain):
    """An event of a command, in the feed of its sandbox."""

    command_id: str
    event: LoggedEvent

    @property
    def kind(self) -> str:
        return f"command.{self.event.kind}"


_OfProgram = Building | Started | RunStarted | OutputPiece | Waiting | Shown | Cleared | Failed | Exit
_OfCaller = ToolRequested | ScoreRequested | RunEnded | AttemptEnded | ContestEnded | NoResult
LoggedEvent = _OfProgram | _OfCaller | Gap | Notice | OfRun | OfCommand
