"""Huge pages for the memory of a nursery, so that a fork copies one entry for 2 MB instead of 512.

A page of 4 KB is copied when a process writes to it, as before: the kernel splits a huge page first.
"""

from __future__ import annotations

from cloche.agent import libc
from cloche.walls.jail import cgroup_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 2 << 20
_MADV_COLLAPSE = 25  # Linux 6.1
_madvise = libc.function("madvise", "lll")


def are_available(proc: int) -> bool:
    """Say whether the kernel makes huge pages of memory in use; the first one is made."""
    return any(collapse(address) for address in areas(proc))


def areas(proc: int) -> Iterator[int]:
    """Yield the addresses in this process that may become a huge page; `proc` is the host's /proc."""
    for line in cgroup_files.read(proc, "self/maps").decode().splitlines():
        fields = line.split(None, 5)
        if fields[1] == "rw-p" and (len(fields) == 5 or fields[5] == "[heap]"):
            begin, end = (int(address, 16) for address in fields[0].split("-"))
            yield from range(-(-begin // _SIZE) * _SIZE, end - _SIZE + 1, _SIZE)


def collapse(address: int) -> bool:
    """Make a huge page of the memory at an address; say whether the kernel could."""
    return _madvise(address, _SIZE, _MADV_COLLAPSE) == 0
