# Generated from src/cloche/walls/wall.py by scripts/blocking.py: edit that file instead.
"""The protocol between the engine and a wall: all that the engine knows about isolation (docs/extend/wall.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cloche.blocking.io.streams import Stream
from cloche.model.order import Listener, Order, Spent


class Hold(Protocol):
    """The engine's hold on a sandbox.  `LeashHold` in leash.py is one for every wall that has a warden."""

    stream: Stream

    def usage(self) -> Spent:
        """The resources that the sandbox has used so far.  Raises SandboxFailed when it could not be built."""

    def set_lifetime(self, seconds: float | None) -> None:
        """Have the wall end the sandbox after so many seconds, counted from now; None: not by itself."""

    def pause(self) -> None:
        """Stop all processes of the sandbox, and keep their state.  Raises Refused where the wall cannot do that."""

    def resume(self) -> None:
        """Let the processes of a paused sandbox go on."""

    def listen(self, ports: Sequence[int]) -> list[Listener]:
        """Open sockets in the sandbox that accept all connections to these ports, whatever their address.

        Raises InvalidRun when a program in the sandbox listens on one of the ports, and Refused where the wall has no
        way to open them.
        """

    def mount_layer(self, folder: str, identity: tuple[int, int], number: int) -> None:
        """Show a folder of the host, read-only, in the sandbox's slot of this number (wire/layers.py).

        `identity` is the folder's device and inode when it was checked.  Raises Refused where the wall cannot do it.
        """

    def ended(self) -> str:
        """Wait until the sandbox has ended, and return the reason: "timeout", "memory", "closed", "failed" or "lost".

        The other methods can be called meanwhile.
        """

    def end(self) -> Spent:
        """Kill the sandbox with everything in it, and return what it used; can be called again."""

    def gone(self) -> None:
        """Wait until nothing of the sandbox is left."""

    def abandon(self) -> None:
        """Kill the sandbox without waiting; never raises, and is safe in a finalizer."""


class Wall(Protocol):
    """A kind of isolation."""

    name: str

    def hold(self, order: Order, first: bytes = b"") -> Hold:
        """Start an agent in a new sandbox; `first`, which is short, is in the agent's stream before anything else."""
