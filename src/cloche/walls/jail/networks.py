"""Checks whether a network namespace is unused: making and removing one takes a tenth of a sandbox's time.

Only a namespace that no program has ever used is used again.  The next sandbox enters it and checks, before any program
runs in it, that all counters and lists of the kernel are as in a new one: no packet, no failed attempt to send one, no
socket or flow label that outlived its owner.  Otherwise the sandbox makes a new namespace.  recycling.py decides how
many are kept, and for how long.
"""

from __future__ import annotations

import os

_COUNTERS = ("dev", "snmp", "snmp6", "netstat", "unix")
_LINGERING = ("ip6_flowlabel",)  # any program may make these, and they stay for seconds even if it never sends anything
_SOCKETS = ("sockstat", "sockstat6")  # only their numbers; the lists themselves take milliseconds to read
_OF_ALL = (b"orphan", b"alloc", b"mem")  # words whose numbers count all namespaces together


def state(folder: str, above: int | None = None) -> bytes:
    """The state of a network namespace, read from this `net` folder of a /proc."""
    seen = [_read(f"{folder}/{name}", above) for name in (*_COUNTERS, *_LINGERING)]
    for name in _SOCKETS:
        words = _read(f"{folder}/{name}", above).split()
        seen += [word for before, word in zip([b"", *words], words, strict=False) if before not in _OF_ALL]
    return b" ".join(seen)


def _read(path: str, above: int | None) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=above)
    except FileNotFoundError:
        return b""  # a kernel without IPv6
    try:
        return os.read(fd, 65536)  # a longer text is not that of a new namespace
    finally:
        os.close(fd)
