"""The events of a run, in the order in which they happen."""

from __future__ import annotations

from cloche.model.plain import Plain
from cloche.model.result import Display, Error, Result


class Started(Plain):
    """The program or cell has started; `pid` is its process id inside the sandbox."""

    pid: int
    kind: str = "started"


class Building(Plain):
    """A step before the program starts has begun, such as "compile"."""

    step: str
    kind: str = "building"


class Output(Plain):
    """A piece of output; `kind` is its stream, "stdout" or "stderr"."""

    kind: str
    data: bytes

    @property
    def text(self) -> str:
        """The piece as text; a character that was cut in two becomes a replacement character."""
        return self.data.decode(errors="replace")


class Waiting(Plain):
    """The program waits for input on its standard input, or, with `waiting=False`, has been given some."""

    waiting: bool = True
    kind: str = "waiting"


class Exit(Plain):
    """The program has ended."""

    result: Result
    kind: str = "exit"


class Shown(Plain):
    """A cell has displayed something; with `update`, it replaces the display with the same `display_id`."""

    result: Display
    update: bool = False
    kind: str = "result"


class Cleared(Plain):
    """The cell asks to clear its displays, as IPython's `clear_output` does; its result keeps them all the same."""

    kind: str = "clear"


class Failed(Plain):
    """A cell has raised an exception, or was stopped."""

    error: Error
    kind: str = "error"


class End(Plain):
    """The cell has ended."""

    result: Result
    kind: str = "end"


Event = Building | Started | Output | Waiting | Exit
CellEvent = Started | Output | Waiting | Shown | Cleared | Failed | End
