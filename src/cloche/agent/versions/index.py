"""Remembers the contents of files by their status, so that unchanged files need not be read again."""

from __future__ import annotations

import marshal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from cloche.agent.versions.store import VersionStore

    Known = dict[int, tuple[int, int, int, str]]  # by inode: size, mtime, ctime, content

_COARSE = 5  # CLOCK_REALTIME_COARSE: the kernel stamps files with it


def now() -> int:
    """Return the time stamp that a file would get if it were written now."""
    return time.clock_gettime_ns(_COARSE)


class Index:
    """The contents of one tree's files by inode, saved in the store.

    Without a store, nothing is loaded or saved: a tree on another file system has other inodes.  Nothing is remembered
    of `mapped` files, which can change without a trace in their status.
    """

    def __init__(self, store: VersionStore | None, mapped: frozenset[int]) -> None:
        self._store, self._mapped = store, mapped
        self._known: Known = {}
        self._learned: Known = {}  # during this call
        if store is not None:
            try:
                self._known = marshal.loads(store.read("index"))
            except FileNotFoundError:
                pass
        for inode in mapped:
            self._known.pop(inode, None)

    def content(self, status: os.stat_result) -> str | None:
        """Return the content of a file with this status, if it is known."""
        known = self._learned.get(status.st_ino) or self._known.get(status.st_ino)
        if known is None or known[:3] != signature(status):
            return None
        self._learned[status.st_ino] = known
        return known[3]

    def learn(self, status: os.stat_result, content: str, since: int) -> None:
        """Remember the content that a file had after the moment `since`.

        A later write gets a time stamp of at least `since`.  So an older file cannot change unnoticed.  A newer file
        may be written again with the same stamp, and is not remembered.
        """
        if status.st_mtime_ns < since and status.st_ino not in self._mapped:
            self._learned[status.st_ino] = (*signature(status), content)

    def save(self) -> None:
        """Save the index for the next call."""
        if self._store is None:
            return
        # Other inodes are kept for a while: they may belong to a copy that will be merged.
        is_short = len(self._known) < 2 * len(self._learned) + 1000
        index = {**self._known, **self._learned} if is_short else self._learned
        if index == self._known and not self._mapped:  # the saved index may still have files that are mapped now
            return
        try:
            self._store.replace("index", marshal.dumps(index))
        except OSError:  # no room: all files are read the next time
            self._store.discard("index")


def signature(status: os.stat_result) -> tuple[int, int, int]:
    """Return the part of a status that changes with every write."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
