"""Has the C library return memory that is not used any more to the host.

After a flood of output, freed pieces lie between others that are still in use, and the C library keeps all of it: a
server that has nothing to do would hold several times the memory of what it keeps.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
from pathlib import Path
from resource import getpagesize

log = logging.getLogger("cloche.memory")

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # names of `mallopt` (malloc.h)
_LARGE = 1 << 20  # bytes of a block that is returned to the host as soon as it is freed
_LOOK_S = 2.0
_CHANGE, _GROWTH = 4 << 20, 64 << 20  # bytes by which the process changes, or grows much


def configure() -> None:
    """Keep the C library from holding on to large blocks.  Does nothing where it is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 4 * _LARGE)):
            mallopt(name, value)


async def keep_trimmed() -> None:
    """Return free memory to the host when the process has grown much, and when it is quiet after a change."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    statistics = Path("/proc/self/statm")
    if trim is None or not statistics.exists():
        return
    last = trimmed = _resident(statistics)
    has_changed = True  # since the last time
    while True:
        await asyncio.sleep(_LOOK_S)
        size = _resident(statistics)
        is_changing = abs(size - last) > _CHANGE
        has_changed = has_changed or is_changing
        last = size
        if has_changed and (not is_changing or size > trimmed + _GROWTH):
            await asyncio.to_thread(trim, 0)  # in a thread: it takes some milliseconds, and needs no lock of Python's
            last = trimmed = _resident(statistics)
            has_changed = is_changing
            log.debug("memory: %d MB, and %d MB after the return of free pages", size >> 20, trimmed >> 20)


def _resident(statistics: Path) -> int:
    return int(statistics.read_text().split()[1]) * getpagesize()
