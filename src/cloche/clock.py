"""Clocks that nobody can set: the host's time of day may jump, forwards or backwards, at any moment.

Records say when something happened by the time of day (`time.time`).  Whatever decides uses these clocks instead:
lifetimes, grants, sessions and the days of quotas the steady one, the removal of old data the earlier one.
"""

from __future__ import annotations

import time

# Goes on while the host is suspended, as lifetimes and days do.
_SINCE = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_START = time.time() - time.clock_gettime(_SINCE)


def steady() -> float:
    """The time of day, counted from the one that the host had when this process started."""
    return _START + time.clock_gettime(_SINCE)


def earlier() -> float:
    """The earlier of the host's time of day and the steady one: data never looks older than it is."""
    return min(time.time(), steady())
