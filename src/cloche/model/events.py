"""What happens during a run, as it happens."""

from __future__ import annotations

from cloche.model.plain import Plain
from cloche.model.result import Display, Error, Result


class Started(Plain):
    """The program or kernel runs; its pid is the one it has inside the sandbox."""

    pid: int
    kind: str = "started"


class Building(Plain):
    """Something is done before the program starts: "compile" …"""

    step: str
    kind: str = "building"


class Output(Plain):
    """A piece of output; `kind` says from which stream ("stdout" or "stderr")."""

    kind: str
    data: bytes

    @property
    def text(self) -> str:
        """The piece as text; a character that was cut in two shows as a replacement."""
        return self.data.decode(errors="replace")


class Exit(Plain):
    """The program has ended."""

    result: Result
    kind: str = "exit"


class Shown(Plain):
    """A cell has displayed something; `update`: in place of what had the same `display_id`."""

    result: Display
    update: bool = False
    kind: str = "result"


class Cleared(Plain):
    """The cell would have what it has displayed so far replaced by what comes; results keep it all the same."""

    kind: str = "clear"


class Failed(Plain):
    """A cell has raised an exception, or was ended."""

    error: Error
    kind: str = "error"


class End(Plain):
    """The cell is over."""

    result: Result
    kind: str = "end"


Event = Building | Started | Output | Exit
CellEvent = Started | Output | Shown | Cleared | Failed | End
