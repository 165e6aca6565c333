"""Network namespaces that serve again: to make one, and to clear it away, takes a tenth of all that a sandbox takes.

Only one that nobody has ever used does.  The next sandbox enters it and looks, before anything runs in it, whether all
that the kernel counts and lists there is as in a new one: not a packet, not a failed attempt to send one, not a socket
or a flow label that outlived its owner.  Otherwise it makes itself another.  How many are kept, and how long:
recycling.py.
"""

from __future__ import annotations

import os

_COUNTERS = ("dev", "snmp", "snmp6", "netstat", "unix")
_LINGERING = ("ip6_flowlabel",)  # what anybody may make that stays for seconds, although nothing was ever sent
_SOCKETS = ("sockstat", "sockstat6")  # how many there are; the lists themselves take milliseconds to read
_OF_ALL = (b"orphan", b"alloc", b"mem")  # what they count for all namespaces together


def state(folder: str, above: int | None = None) -> bytes:
    """What there is to see of a network namespace, in this `net` folder of some /proc."""
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
        return os.read(fd, 65536)  # what is longer is not that of a new one
    finally:
        os.close(fd)
