"""Reuses or removes the control groups and network namespaces of sandboxes that have ended.

When many sandboxes are made in a row, making and removing these takes a good part of the time of each sandbox.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.walls.jail.plan import GroupLimits
    from cloche.walls.jail.sandbox_process import SandboxProcess

KEEP_S = 0.25  # time after the last claim for which groups and networks are kept
_GROUPS = _NETWORKS = 8  # most that are kept at a time
_BUSY_S = 0.05  # an empty group may stay busy for a moment, and no event reports when it is free
_LEAVE_S = 1.5  # time for removing everything at the end; the keeper removes the rest


class Recycler:
    """The control groups and network namespaces that one nursery keeps."""

    def __init__(self, usual: GroupLimits) -> None:
        self._usual = usual  # only groups with the usual limits can be reused
        self._groups: list[Any] = []  # empty and as good as new
        self._networks: list[int] = []  # descriptors; see networks.py
        self._to_remove: list[Any] = []  # groups that could not be removed yet

    def take(self, sandbox: SandboxProcess) -> None:
        """Take the control group and the network namespace of a dead sandbox."""
        if sandbox.is_open:
            os.close(sandbox.network)  # the look at a used namespace does not see its routes
        elif sandbox.network >= 0:
            self._networks.append(sandbox.network)
            if len(self._networks) > _NETWORKS:
                os.close(self._networks.pop(0))
        if sandbox.group is not None:
            again = sandbox.limits == self._usual and len(self._groups) < _GROUPS and sandbox.group.renew()
            (self._groups if again else self._to_remove).append(sandbox.group)

    def group(self, limits: GroupLimits) -> Any:
        """Return a control group that has these limits already, or None."""
        return self._groups.pop() if self._groups and limits == self._usual else None

    def network(self) -> int | None:
        """Return a network namespace, which the next sandbox must check before using it; or None."""
        return self._networks.pop() if self._networks else None

    def remove(self) -> None:
        """Remove the groups that can be removed by now."""
        if self._to_remove:
            self._to_remove = [group for group in self._to_remove if not group.remove()]

    def give_up(self) -> None:
        """Stop keeping anything, because no claim has come for a while."""
        self._to_remove += self._groups
        self._groups = []
        while self._networks:
            os.close(self._networks.pop())

    def next_look(self) -> float | None:
        """Return in how many seconds there may be work to do; None when there is nothing."""
        if self._to_remove:
            return _BUSY_S
        return KEEP_S if self._groups or self._networks else None

    def leave(self) -> None:
        """Remove everything when the nursery ends."""
        self.give_up()
        deadline = time.monotonic() + _LEAVE_S
        self.remove()
        while self._to_remove and time.monotonic() < deadline:
            time.sleep(0.002)
            self.remove()
