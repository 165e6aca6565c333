"""The nursery's record of one sandbox."""

from __future__ import annotations

import os
from time import monotonic

from cloche.walls import sockets
from cloche.walls.jail.process_times import ProcessTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.walls.jail.claim import Claim
    from cloche.walls.jail.plan import GroupLimits

_SIGKILL = 9


class SandboxProcess:
    """A sandbox that the nursery has forked: being built, waiting to be claimed, in use, or dying."""

    def __init__(self, pid: int, parking: sockets.Socket, group: Any, shape: str) -> None:
        self.pid, self.parking, self.group, self.shape = pid, parking, group, shape
        self.host_pid = 0
        self.limits: GroupLimits | None = None  # that its control group has
        self.first_command = ""  # the command that has been started in it, if one has
        self.workspace = -1  # a descriptor of its file system, to ask how full it is
        self.network = -1  # a descriptor of its network namespace, for the next sandbox
        self.is_open = False  # that namespace has routes and listeners (listeners.py)
        self.ready = False
        self.claim: Claim | None = None
        self.begun = False  # somebody uses it
        self.reason = ""  # why the nursery killed it, if it did
        self.dead = False
        self.born = monotonic()
        self.times: ProcessTimes | None = None  # its CPU time, where no control group counts it
        self.memory_kills = 0  # times that programs were killed because memory was short
        self.memory_strikes = 0  # the same, in a row
        self.dying: set[int] = set()  # the processes that were killed for that last
        self.dies_until = 0.0

    def note_host_pid(self, pid: int) -> None:
        self.host_pid = pid
        if self.group is not None:
            self.group.host_pid = pid

    def note_network(self, proc: int) -> None:
        """Keep its network namespace; `proc` is the host's /proc."""
        self.network = os.open(f"{self.host_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)

    def become_ready(self, proc: int) -> None:
        """It can be handed over; `proc` is the host's /proc."""
        self.ready = True
        if self.group is None or not self.group.counts_cpu:
            self.times = ProcessTimes(proc, self.host_pid)

    def note_failure(self, message: bytes) -> bool:
        """Keep the reason if this message of the sandbox says that it could not be built."""
        if message[:1] != b"!":
            return False
        self.reason = message[1:].decode(errors="replace")
        return True

    def note_unread_failure(self) -> bool:
        """The same for messages that are still unread: the nursery may notice the end of a sandbox before them."""
        try:
            while message := self.parking.recv(4096, sockets.DONTWAIT):
                if self.note_failure(message):
                    return True
        except OSError:
            pass  # there is none
        return False

    def kill(self) -> None:
        if not self.dead:
            os.kill(self.pid, _SIGKILL)  # pid 1 of its namespace: every process in it dies with it

    def usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = {"host_pid": self.host_pid}
        if self.group is not None:
            usage.update(self.group.usage())
            usage["oom_kills"] = (usage["oom_kills"] or 0) + self.memory_kills
        if self.times is not None:
            if not self.dead:
                self.times.count()
            usage["cpu_estimate_s"] = self.times.counted_s
        return usage

    def pause(self, stop: bool) -> dict[str, Any]:
        """Stop all its processes, or let them go on; returns the answer for the engine."""
        is_stopped = self._stop(stop)
        if stop and not is_stopped:
            reason = "Sandboxes cannot be paused here: there are no control groups."
            return {"refused": reason, "hint": "See `cloche doctor`."}
        return {"paused": is_stopped}

    def _stop(self, stop: bool) -> bool:
        """Return whether its processes are stopped now."""
        if self.group is None:
            return False
        try:
            done = self.group.stop(stop, self.pid)
            if stop and not done:
                self.group.stop(False, self.pid)
        except OSError:
            done = False  # the sandbox has just ended, or the kernel has no freezer
        return stop if done else not stop

    def is_unused(self) -> bool:
        """Claimed by a standing claim, and nobody wants it yet."""
        return self.claim is not None and self.ready and not (self.begun or self.dead or self.reason)

    def is_free(self) -> bool:
        """It can be claimed."""
        return self.claim is None and not self.dead and not self.reason
