"""A claim: an order on its way from the engine to a nursery.

An order has the same names everywhere.  The engine makes an `Order` (model/order.py).  `order_data` turns it into plain
data that `marshal` can carry, an `OrderData`.  A claim is that data with two descriptors attached: the agent's end of a
stream, and the nursery's end of a leash.  From the order in a claim and its own configuration the nursery makes a
`Plan` (plan.py), which a new sandbox follows step by step.

Every sandbox is a fork of the nursery and can read the nursery's memory, so an order contains nothing that a caller has
named.  The paths of mounted folders wait in a third descriptor, which only the new sandbox reads; everything else that
a caller sends travels in the stream.
"""

from __future__ import annotations

import os

from cloche.walls import leash_messages, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypedDict

    from cloche.model.limits import Limits

    class MountData(TypedDict):
        source: str  # on the host, without links
        identity: tuple[int, int]  # its device and inode when it was checked
        target: str
        writable: bool

    class CommandData(TypedDict):
        argv: tuple[str, ...]
        env: dict[str, str]
        until: str

    class OrderData(TypedDict):
        memory: int  # bytes, like disk
        cpu: float  # cores
        disk: int
        processes: int
        mounts: str  # "": none; "read": read-only; "write": one of them is writable
        lifetime_s: float | None
        first_command: CommandData | None
        standing: bool  # sent ahead of time: nobody wants the sandbox yet (standing_claims.py)


RETIRE = b"retire"  # a message on the control socket that is no claim: the nursery ends after its last sandbox
MAX_CLAIM = 64 << 10  # bytes of a claim's message
_MAX_REQUEST = 4096  # bytes of a message on the leash
MAX_MOUNTS = 64 << 10  # bytes of the description of all mounts


def order_data(limits: Limits, mounts: Sequence[MountData] = ()) -> OrderData:
    """An order as plain data, without a lifetime or a first command."""
    writable = any(mount["writable"] for mount in mounts)
    return {
        "memory": limits.memory_bytes,
        "cpu": limits.cpu,
        "disk": limits.disk_bytes,
        "processes": limits.processes,
        "mounts": "write" if writable else "read" if mounts else "",
        "lifetime_s": None,
        "first_command": None,
        "standing": False,
    }


class Claim:
    """A claim that a nursery has received."""

    def __init__(self, order: OrderData, stream: int, leash: sockets.Socket, mounts: int = -1) -> None:
        self.order, self.stream, self.leash = order, stream, leash
        self.mounts = mounts  # a descriptor from which the sandbox reads its mounts
        self.first_command = "" if order["first_command"] is None else repr(order["first_command"])
        self.deadline: float | None = None
        self.told_end = False

    def tell(self, **message: Any) -> None:
        leash_messages.tell(self.leash, **message)

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next request on the leash with its descriptors, if there is one; a closed leash reads as `end`."""
        try:
            message, descriptors = sockets.receive(self.leash, _MAX_REQUEST, 1, sockets.DONTWAIT)
        except BlockingIOError:
            return {}, []
        except OSError:
            message, descriptors = b"", []
        return leash_messages.decode(message), descriptors

    def close_mounts(self) -> None:
        """Close the descriptor of the mounts, once a sandbox has it."""
        if self.mounts >= 0:
            os.close(self.mounts)
            self.mounts = -1

    def drop(self) -> None:
        """Close the leash, and the agent's end of the stream if no sandbox has got it."""
        self.leash.close()
        self.close_mounts()
        if self.stream >= 0:
            os.close(self.stream)
