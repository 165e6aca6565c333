# Generated from src/cloche/walls/wall.py by scripts/blocking.py: edit that file instead.
"""What a wall is: start an agent behind this isolation, with these limits and mounts; kill it; what does it use?

`Wall` and `Hold` are all that the engine knows of isolation.  A new wall is one file that fulfils them.
"""

from __future__ import annotations

from typing import Protocol

from cloche.blocking.io.streams import Stream
from cloche.model.order import Order, Spent


class Hold(Protocol):
    """A sandbox being held."""

    stream: Stream

    def usage(self) -> Spent:
        """What it has used so far.  Raises SandboxFailed, with the reason, when it could not be built."""

    def set_lifetime(self, seconds: float | None) -> None:
        """End it by itself after so long, counted from now."""

    def pause(self) -> None:
        """Have nothing in it run any more, and forget nothing of it; raises Refused where that cannot be done."""

    def resume(self) -> None:
        """Have it go on."""

    def ended(self) -> str:
        """Wait until it has ended, by whomever; the reason, in a word.  It may be asked and told things meanwhile."""

    def end(self) -> Spent:
        """Kill it, with all that is in it, and tell what it used; may be called again."""

    def gone(self) -> None:
        """Wait until nothing is left of it on the host."""

    def abandon(self) -> None:
        """Kill it without waiting for anything; safe to call from a finalizer."""


class Wall(Protocol):
    """A kind of isolation."""

    name: str

    def hold(self, order: Order, first: bytes = b"") -> Hold:
        """Start an agent in a new sandbox; `first`, which is not long, is what it finds when it begins to read."""
