"""Counts the memory of a sandbox where no control group does: an ordinary user without delegation, most containers.

The nursery adds up the memory of all processes of the sandbox, from outside, with a timer.  Pages that processes share
count once; page tables count, too.  Memory that no process maps cannot be found this way, so the filter does not let
programs make it there: no memfd, no large System V segments and sets of semaphores, no System V queues, and no huge
pages that only a pipe or a socket holds (filter.py).  docs/decisions/0021-counted-from-outside.md has the reasons.
"""

from __future__ import annotations

import os
from time import process_time

from cloche.walls.jail import cgroup_files
from cloche.walls.jail.group import Group, set_timer
from cloche.walls.jail.process_tree import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FASTEST = 8e9  # bytes per second that processes can fill; the next look comes before the room could be used up
_SOONEST_S, _LATEST_S = 0.01, 0.1
_SHARE = 10  # a look that takes long comes more seldom: at most this part of the time is spent on looking
_SIGKILL = 9
_TABLES = b"VmPTE:"  # page tables: 4 KiB for each 2 MiB that a program has only read, without any page of its own
_RESIDENT = (b"RssAnon:", b"RssShmem:", b"VmSwap:", _TABLES)


class CountedGroup(Group):
    """A group without the memory controller, whose memory is counted by process."""

    def __init__(self, name: str, places: list[tuple[int, int, list[str]]], proc: int) -> None:
        super().__init__(name, places)
        self._proc = proc  # the host's /proc
        # Every process of the sandbox shares memory with the nursery, which is not the caller's.
        self._nurserys = _fields(cgroup_files.read(proc, "self/status"), b"RssAnon:")

    def limit(self, memory: int, disk: int, cpu: float, processes: int) -> None:
        """See `Group`."""
        super().limit(memory, disk, cpu, processes)
        self._memory = memory
        self._start_watch(1)

    def begin(self) -> None:
        """See `Group`."""
        set_timer(self._timer, _SOONEST_S)

    def check(self, files: Callable[[], int] | None = None) -> bool:
        """See `Group`."""
        begin = process_time()
        set_timer(self._timer, _SOONEST_S)  # in case the answer is yes
        most = self._memory + self._nurserys
        used = self._at_most()
        # The first number counts shared pages once per process: it is cheap, and enough most of the time.
        if used > most:
            used = self._counted(files)
            if used > most:
                return True
        self._most = max(self._most, used - self._nurserys)
        delay = min(max((most - used) / _FASTEST, _SOONEST_S), _LATEST_S)
        set_timer(self._timer, max(delay, _SHARE * (process_time() - begin)))
        return False

    def processes(self) -> set[int]:
        """The processes of the sandbox, by their numbers in the nursery's pid namespace."""
        found = set()
        for pid in self._tree():
            # A process has a number on the host, one here, and one in the sandbox.
            numbers = self._read_of(pid, "status").partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
            if len(numbers) >= 2:
                found.add(int(numbers[-2]))
        return found

    def kill_all_but(self, spared: set[int]) -> bool:
        """See `Group`."""
        seen = set(spared)
        for _ in range(100):
            fresh = self.processes() - seen
            if not fresh:
                return True
            for pid in fresh:
                try:
                    os.kill(pid, _SIGKILL)
                except ProcessLookupError:
                    pass
            seen |= fresh
        return False

    def stop(self, *_: object) -> bool:
        """Return False: without a control group, new processes could start unseen."""
        return False

    def _at_most(self) -> int:
        return sum(_fields(self._read_of(pid, "status"), *_RESIDENT) for pid in self._tree())

    def _counted(self, files: Callable[[], int] | None) -> int:
        own = shared = 0
        for pid in self._tree():
            text = self._read_of(pid, "smaps_rollup")
            own += _fields(text, b"Pss_Anon:", b"SwapPss:") + _fields(self._read_of(pid, "status"), _TABLES)
            shared += _fields(text, b"Pss_Shmem:")
        # Files of the workspace that are mapped count as files.
        return own + max(0, shared - (files() if files else 0))

    def _tree(self) -> Iterator[int]:
        return processes(self._proc, self.host_pid) if self.host_pid else iter(())

    def _read_of(self, pid: int, name: str) -> bytes:
        try:
            return cgroup_files.read(self._proc, f"{pid}/{name}")
        except OSError:
            return b""  # the process has just ended


def _fields(text: bytes, *names: bytes) -> int:
    """The sum of these lines of a file in /proc, in bytes; a line that is missing counts as 0."""
    total = 0
    for name in names:
        value = text.partition(b"\n" + name)[2].split(None, 1)[:1]
        total += int(value[0]) * 1024 if value else 0
    return total
