"""Finds the files that programs have mapped into their memory."""

from __future__ import annotations

import os


def mapped(top: int, asleep: frozenset[str] = frozenset()) -> frozenset[int]:
    """Return the inodes of the files, on the folder's file system, that programs have mapped for writing.

    A page that was already read can be written without the kernel noticing; on tmpfs it never notices.  Processes in
    `asleep` write nothing.  Examining a large program takes about a millisecond.
    """
    device = os.fstat(top).st_dev
    mark = b"%02x:%02x" % (os.major(device), os.minor(device))
    found = set()
    for pid in os.listdir("/proc"):
        if not pid.isdecimal() or pid in asleep:
            continue
        try:
            with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
                lines = file.readall().split(b"\n")
        except OSError:
            continue  # it has ended, or may not be examined
        for line in lines:
            if b"w" in line[:60] and mark in line:
                _, permissions, _, at, inode = line.split(None, 5)[:5]
                if at == mark and permissions[1:2] == b"w" and permissions[3:4] == b"s":
                    found.add(int(inode))
    return frozenset(found)
