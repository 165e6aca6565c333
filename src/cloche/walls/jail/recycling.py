"""What sandboxes leave that have ended: control groups and network namespaces, for the next ones or to be removed.

In a rush, making and removing them is a good part of what a sandbox takes.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.walls.jail.sandbox_process import Ward

KEEP_S = 0.25  # for so long after a claim
_GROUPS = _NETWORKS = 8  # kept at a time
_BUSY_S = 0.05  # an empty group may stay busy for a moment: nothing tells when it is not
_LEAVE_S = 1.5  # to be done within; what is left then, the keeper removes


class Leftovers:
    """Of one nursery."""

    def __init__(self, usual: dict[str, Any]) -> None:
        self._usual = usual  # limits: a group with others serves nobody else
        self._groups: list[Any] = []  # empty ones, as good as new
        self._networks: list[int] = []  # that may serve again (networks.py)
        self._buried: list[Any] = []  # groups that could not be removed yet

    def take(self, ward: Ward) -> None:
        """A sandbox is dead."""
        if ward.network >= 0:
            self._networks.append(ward.network)
            if len(self._networks) > _NETWORKS:
                os.close(self._networks.pop(0))
        if ward.group is not None:
            again = ward.limits == self._usual and len(self._groups) < _GROUPS and ward.group.renew()
            (self._groups if again else self._buried).append(ward.group)

    def group(self, limits: dict[str, Any]) -> Any:
        """A control group that has these limits already, or None."""
        return self._groups.pop() if self._groups and limits == self._usual else None

    def network(self) -> int | None:
        """A network namespace, to be looked at before it is used."""
        return self._networks.pop() if self._networks else None

    def remove(self) -> None:
        """Remove what nobody needs, as far as it can be removed now."""
        if self._buried:
            self._buried = [group for group in self._buried if not group.remove()]

    def give_up(self) -> None:
        """Nobody seems to need any of it."""
        self._buried += self._groups
        self._groups = []
        while self._networks:
            os.close(self._networks.pop())

    def next_look(self) -> float | None:
        """In how many seconds there may be something to do."""
        if self._buried:
            return _BUSY_S
        return KEEP_S if self._groups or self._networks else None

    def leave(self) -> None:
        """Remove all there is."""
        self.give_up()
        deadline = time.monotonic() + _LEAVE_S
        self.remove()
        while self._buried and time.monotonic() < deadline:
            time.sleep(0.002)
            self.remove()
