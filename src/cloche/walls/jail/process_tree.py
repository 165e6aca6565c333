"""The processes of a sandbox as the host's /proc shows them, for hosts where no control group lists them."""

from __future__ import annotations

import os

from cloche.walls.jail.cgroup_files import DIRECTORY, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 10_000  # processes of one sandbox, in case a host does not limit them


def processes(proc: int, first: int) -> Iterator[int]:
    """Yield the first process of a sandbox and its descendants, by their numbers on the host; `proc` is its /proc.

    Orphans become children of the first process.  The children of a process are looked up after it was yielded, so the
    caller has read a parent before a child that ends meanwhile is counted as the parent's.
    """
    waiting, found = [first], 0
    while waiting and found < _MOST:
        pid = waiting.pop()
        found += 1
        yield pid
        for thread in _threads(proc, pid):
            try:
                waiting += map(int, read(proc, f"{pid}/task/{thread}/children").split())
            except OSError:
                continue  # this thread has just ended; the next one may still have children


def _threads(proc: int, pid: int) -> list[str]:
    try:
        folder = os.open(f"{pid}/task", DIRECTORY, dir_fd=proc)
    except OSError:
        return []  # the process has just ended
    try:
        return os.listdir(folder)
    except OSError:
        return []
    finally:
        os.close(folder)
