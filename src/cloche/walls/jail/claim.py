"""A claim: an order on its way from the engine to a nursery.

An order has the same names everywhere.  The engine makes an `Order` (model/order.py).  `order_data` turns it into plain
data that `marshal` can carry, an `OrderData`.  A claim is that data with two descriptors attached: the agent's end of a
stream, and the nursery's end of a leash.  From the order in a claim and its own configuration the nursery makes a
`Plan` (plan.py), which a new sandbox follows step by step.
"""

from __future__ import annotations

import os

from cloche.walls import leash_messages, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        mounts: list[MountData]
        lifetime_s: float | None
        first_command: CommandData | None
        standing: bool  # sent ahead of time: nobody wants the sandbox yet (standing_claims.py)


MAX_CLAIM = 64 << 10  # bytes of a claim's message


def order_data(limits: Limits, mounts: list[MountData]) -> OrderData:
    """An order as plain data, without a lifetime or a first command."""
    return {
        "memory": limits.memory_bytes,
        "cpu": limits.cpu,
        "disk": limits.disk_bytes,
        "processes": limits.processes,
        "mounts": mounts,
        "lifetime_s": None,
        "first_command": None,
        "standing": False,
    }


class Claim:
    """A claim that a nursery has received."""

    def __init__(self, order: OrderData, stream: int, leash: sockets.Socket) -> None:
        self.order, self.stream, self.leash = order, stream, leash
        self.first_command = "" if order["first_command"] is None else repr(order["first_command"])
        self.deadline: float | None = None
        self.told_end = False

    def tell(self, **message: Any) -> None:
        leash_messages.tell(self.leash, **message)

    def drop(self) -> None:
        """Close the leash, and the agent's end of the stream if no sandbox has got it."""
        self.leash.close()
        if self.stream >= 0:
            os.close(self.stream)
