"""What happens during a run, as it happens."""

from __future__ import annotations

from dataclasses import dataclass

from cloche.model.result import Result


@dataclass(frozen=True, slots=True)
class Started:
    """The program runs; its pid is the one it has inside the sandbox."""

    pid: int
    kind: str = "started"


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of output; `kind` says from which stream ("stdout" or "stderr")."""

    kind: str
    data: bytes

    @property
    def text(self) -> str:
        """The piece as text; a character that was cut in two shows as a replacement."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Exit:
    """The program has ended."""

    result: Result
    kind: str = "exit"


Event = Started | Output | Exit
