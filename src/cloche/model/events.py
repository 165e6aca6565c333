"""What happens during a run, as it happens."""

from __future__ import annotations

from cloche.model.plain import Plain
from cloche.model.result import Result


class Started(Plain):
    """The program runs; its pid is the one it has inside the sandbox."""

    pid: int
    kind: str = "started"


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


Event = Started | Output | Exit
