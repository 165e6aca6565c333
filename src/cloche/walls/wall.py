"""What a wall is: start an agent behind this isolation, with these limits and mounts; kill it; what does it use?

`AsyncWall` and `AsyncHold` are all that the engine knows of isolation.  A new wall is one file that fulfils them.
"""

from __future__ import annotations

from typing import Protocol

from cloche.io.streams import AsyncStream
from cloche.model.order import Order, Spent


class AsyncHold(Protocol):
    """A sandbox being held."""

    stream: AsyncStream

    async def usage(self) -> Spent:
        """What it has used so far.  Raises SandboxFailed, with the reason, when it could not be built."""

    async def set_lifetime(self, seconds: float | None) -> None:
        """End it by itself after so long, counted from now."""

    async def pause(self) -> None:
        """Have nothing in it run any more, and forget nothing of it; raises Refused where that cannot be done."""

    async def resume(self) -> None:
        """Have it go on."""

    async def ended(self) -> str:
        """Wait until it has ended, by whomever; the reason, in a word.  It may be asked and told things meanwhile."""

    async def end(self) -> Spent:
        """Kill it, with all that is in it, and tell what it used; may be called again."""

    async def gone(self) -> None:
        """Wait until nothing is left of it on the host."""

    def abandon(self) -> None:
        """Kill it without waiting for anything; safe to call from a finalizer."""


class AsyncWall(Protocol):
    """A kind of isolation."""

    name: str

    async def hold(self, order: Order, first: bytes = b"") -> AsyncHold:
        """Start an agent in a new sandbox; `first`, which is not long, is what it finds when it begins to read."""
