# Generated from src/cloche/walls/wall.py by scripts/blocking.py: edit that instead.
"""What a wall is: start an agent behind this isolation, with these limits and mounts; kill it; what does it use?

`Wall` and `Hold` are all that the engine knows of isolation.  A new wall is one file that fulfils them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from cloche.blocking.io import Stream
from cloche.model.files import Mount
from cloche.model.limits import Limits


@dataclass(frozen=True, slots=True)
class Order:
    """What the engine wants a sandbox to be."""

    limits: Limits
    mounts: tuple[Mount, ...] = ()
    imports: frozenset[str] | None = None  # libraries that the program will use; None when nobody knows
    lifetime_s: float | None = None  # the wall ends the sandbox by itself after so long


@dataclass(frozen=True, slots=True)
class Spent:
    """What a sandbox has used, as seen from outside; None where this wall cannot tell."""

    memory: int | None = None
    memory_peak: int | None = None
    cpu_time: float | None = None
    processes: int | None = None
    oom_kills: int = 0  # processes that were killed for want of memory
    processes_refused: int = 0  # times that the limit of processes was met
    reason: str = field(default="")  # why the wall ended it, if it did: "memory", "timeout" …


class Hold(Protocol):
    """A sandbox being held."""

    stream: Stream

    def usage(self) -> Spent:
        """What it has used so far.  Raises SandboxFailed, with the reason, when it could not be built."""

    def set_lifetime(self, seconds: float | None) -> None:
        """End it by itself after so long, counted from now."""

    def end(self) -> Spent:
        """Kill it, with all that is in it, and tell what it used; may be called again."""

    def gone(self) -> None:
        """Wait until nothing is left of it on the host."""

    def abandon(self) -> None:
        """Kill it without waiting for anything; safe to call from a finalizer."""


class Wall(Protocol):
    """A kind of isolation."""

    name: str

    def hold(self, order: Order) -> Hold:
        """Start an agent in a new sandbox."""
