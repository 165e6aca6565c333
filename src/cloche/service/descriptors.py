"""Keeps descriptors free for connections, for the database, and for runs and sandboxes that have begun already."""

from __future__ import annotations

import os
from resource import RLIMIT_NOFILE, getrlimit
from time import monotonic

_FREE = 256  # or an eighth, where a process may have few
_FRESH_S = 0.1  # how long a count is valid
_OF_NURSERY, _PER_SANDBOX = 336, 18  # walls/jail/descriptors.py

_counted, _in_use = float("-inf"), 0


def are_short() -> bool:
    """Return whether so few descriptors are free that nothing new may begin."""
    global _counted, _in_use
    now = monotonic()
    if now - _counted > _FRESH_S:
        _counted, _in_use = now, _count()
    most = getrlimit(RLIMIT_NOFILE)[0]
    return most - _in_use <= min(_FREE, most // 8)


def most_sandboxes() -> int:
    """Return how many sandboxes the process that makes them has descriptors for, beside those made ahead."""
    return max(2, (getrlimit(RLIMIT_NOFILE)[1] - _OF_NURSERY) // _PER_SANDBOX)


def _count() -> int:
    try:
        # The size is the number of descriptors since Linux 6.2, and 0 before.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return getrlimit(RLIMIT_NOFILE)[0]  # not one is free for reading the folder
