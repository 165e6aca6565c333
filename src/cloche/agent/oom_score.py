"""Who is killed first when memory runs out: programs, because the agent has to report it.

A process has the score of its parent at the moment of its birth.  So the agent takes the highest score for a moment
whenever it starts a program.  Programs cannot lower theirs: their /proc is read-only.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM = b"1000"
_file: int | None = None  # the agent's own oom_score_adj, open for writing
_own = b"0"


def keep(file: int) -> None:
    """Use this descriptor of the agent's own oom_score_adj, which the agent could not open later."""
    global _file, _own
    _file = file
    if file >= 0:
        _own = os.pread(file, 16, 0).strip()


def expendable(start: Callable[[], int]) -> int:
    """Call a function that forks or spawns, so that its child has the score of a program; return the child's pid."""
    if _file is None:
        keep(_opened())
    _set(_PROGRAM)
    pid = -1
    try:
        pid = start()
    finally:
        if pid:  # not in the child, where the descriptor still means the agent
            _set(_own)
    return pid


def _opened() -> int:
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return -1  # behind a wall that has no such file


def _set(score: bytes) -> None:
    try:
        os.write(_file or -1, score)
    except OSError:
        pass  # the kernel then chooses by size alone
