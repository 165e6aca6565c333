"""What the contents of files are known to be, as long as their status stays what it was: these are not read again."""

from __future__ import annotations

import marshal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from cloche.agent.versions.store import VersionStore

    Known = dict[int, tuple[int, int, int, str]]  # by inode: size, mtime, ctime, content

_COARSE = 5  # CLOCK_REALTIME_COARSE: what the kernel stamps files with


def now() -> int:
    """The time that a file would get if it were written to."""
    return time.clock_gettime_ns(_COARSE)


class Index:
    """ContentStore of the files of one tree by their inodes, kept in the store.

    Without a store nothing is known before or kept: for a tree on another file system, with other inodes.
    Nothing is known of `mapped` files: they change without a trace in their status.
    """

    def __init__(self, store: VersionStore | None, mapped: frozenset[int]) -> None:
        self._store, self._mapped = store, mapped
        self._known: Known = {}
        self._learned: Known = {}  # in this call
        if store is not None:
            try:
                self._known = marshal.loads(store.read("index"))
            except FileNotFoundError:
                pass
        for inode in mapped:
            self._known.pop(inode, None)

    def content(self, status: os.stat_result) -> str | None:
        """The content of a file with this status, if it is known."""
        known = self._learned.get(status.st_ino) or self._known.get(status.st_ino)
        if known is None or known[:3] != signature(status):
            return None
        self._learned[status.st_ino] = known
        return known[3]

    def learn(self, status: os.stat_result, content: str, since: int) -> None:
        """Remember what was found in a file after the moment `since`.

        A write after that moment gets a stamp not before it.  So a file that is older cannot change unnoticed; one that
        is not may be written to once more with the same stamp, and is not remembered.
        """
        if status.st_mtime_ns < since and status.st_ino not in self._mapped:
            self._learned[status.st_ino] = (*signature(status), content)

    def save(self) -> None:
        """Keep it for the next call."""
        if self._store is None:
            return
        # What is known of other inodes stays a while: they may be of a copy that will be merged.
        is_short = len(self._known) < 2 * len(self._learned) + 1000
        index = {**self._known, **self._learned} if is_short else self._learned
        if index == self._known and not self._mapped:  # what is kept may have what is mapped now
            return
        try:
            self._store.replace("index", marshal.dumps(index))
        except OSError:  # no room: the next time all is read
            self._store.discard("index")


def signature(status: os.stat_result) -> tuple[int, int, int]:
    """What changes whenever a file is written to."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
