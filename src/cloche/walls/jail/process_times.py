"""Counts the CPU time of a sandbox from its processes, on a host without control groups that would count it.

The kernel adds the time of a process to its parent's "children" when the parent waits for it.  So the sum over all
living processes of a sandbox, which descend from its pid 1, is what the sandbox has used.  Where a parent ignores
SIGCHLD, the time that its children used after the last count is lost.  The same is true of a sandbox that dies alone.
"""

from __future__ import annotations

import os

from cloche.walls.jail.cgroup_files import read
from cloche.walls.jail.process_tree import processes

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessTimes:
    """The CPU time of one sandbox; `proc` is the host's /proc, and `pid` the sandbox's pid 1 there."""

    def __init__(self, proc: int, pid: int) -> None:
        self._proc, self._pid = proc, pid
        self._seen: dict[int, tuple[int, int]] = {}  # ticks of each process and of its children, at the last count
        self._ticks = self._missing = 0
        self.count()
        self._ticks = 0  # the time for making the sandbox is not the caller's

    @property
    def counted_s(self) -> float:
        """The seconds that the sandbox had used at the last count."""
        return self._ticks / _TICKS

    def count(self) -> None:
        """Count again, while the sandbox lives: later, its pid may be another process's."""
        now = self._living()
        if now:
            own = waited = 0
            for pid, (ticks, children) in now.items():
                before = self._seen.get(pid, (0, 0))
                own += max(0, ticks - before[0])
                waited += max(0, children - before[1])
            # A process that has ended is part of its parent's children, with what was counted for it already: now, or
            # at the next count, if the parent was read just before.
            ended = sum(ticks + children for pid, (ticks, children) in self._seen.items() if pid not in now)
            counted = min(waited, ended + self._missing)
            self._missing = min(ended, ended + self._missing - counted)
            self._ticks += own + waited - counted
            self._seen = now

    def _living(self) -> dict[int, tuple[int, int]]:
        """Read parents before children: one that ends meanwhile is counted next time, and none is counted twice."""
        found: dict[int, tuple[int, int]] = {}
        for pid in processes(self._proc, self._pid):
            try:
                # The name, in parentheses, may contain anything.  The times are the 14th to 17th field.
                fields = read(self._proc, f"{pid}/stat").rpartition(b")")[2].split()
                found[pid] = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
        return found
