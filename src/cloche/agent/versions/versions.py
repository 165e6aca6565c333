"""The operations on versions of one tree: take, compare, restore, copy, merge and forget."""

from __future__ import annotations

import errno
import os
import stat as modes

from cloche.agent.versions.compare import changes
from cloche.agent.versions.index import Index
from cloche.agent.versions.restore import restore
from cloche.agent.versions.store import VersionStore
from cloche.agent.versions.take import take
from cloche.agent.versions.tree import MAX_ENTRIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_NAME = 100  # bytes of a version's name
_LIVE = "live"  # a temporary version; other names are in hex


class Versions:
    """The versions of the tree at `top`, kept in the folder `store`: both are open descriptors on one file system.

    `mapped` has the inodes of files that a program has mapped for writing (`mapped()` finds them).  The names in
    `left_out` at the top of the tree are not part of it.
    """

    def __init__(
        self, top: int, store: int, mapped: frozenset[int] = frozenset(), left_out: frozenset[str] = frozenset()
    ) -> None:
        self._top, self._store, self._mapped, self._left_out = top, VersionStore(store), mapped, left_out

    def take(self, name: str, most: int = MAX_ENTRIES) -> dict[str, int]:
        """Record the tree under a name, and replace an earlier version of that name.

        `unsteady` counts the files that changed while they were read, `unread` the files and folders that could not be
        read, which a restore leaves alone.
        """
        return self._take(self._top, _file_name(name), most)

    def restore(self, name: str) -> dict[str, Any]:
        """Restore the tree as far as possible; `problem` is the first failure."""
        return self._restore(self._top, _file_name(name))

    def changes(self, name: str) -> dict[str, Any]:
        """Return the paths that were created, changed and removed since a version, and `totals`.

        A folder's path ends in `/`.  A change is another content, kind, mode or target; another time alone is not.
        """
        tree = self._store.load(_file_name(name))
        return changes(self._store, self._index(self._top), self._top, self._left_out, tree)

    def copy(self, name: str | None, to: int) -> dict[str, Any]:
        """Write the tree of a version, or the live tree, into an empty folder."""
        if os.listdir(to):
            raise OSError(errno.ENOTEMPTY, "the folder to copy into is not empty")
        if name is not None:
            return self._restore(to, _file_name(name))
        self._take(self._top, _LIVE)
        try:
            return self._restore(to, _LIVE)
        finally:
            self._store.forget(_LIVE)

    def merge(self, source: int, name: str) -> dict[str, Any]:
        """Record the tree in the folder `source` as a version, and make our tree equal to it."""
        self._take(source, _file_name(name))
        return self.restore(name)

    def forget(self, name: str) -> None:
        """Remove a version, and the contents that no other version uses."""
        self._store.forget(_file_name(name))

    def has_files(self, name: str) -> bool:
        """Say whether a version has any regular file."""
        return any(modes.S_ISREG(file[2]) for file in self._store.load(_file_name(name))[1])

    def size(self) -> int:
        """Return the disk space of the store in bytes."""
        return self._store.size()

    def _take(self, top: int, version: str, most: int = MAX_ENTRIES) -> dict[str, int]:
        index = self._index(top)
        had_one = self._store.has(version)
        taken = take(self._store, index, top, self._left_out, version, most)
        index.save()
        if had_one:
            self._store.sweep()
        return taken

    def _restore(self, top: int, version: str) -> dict[str, Any]:
        tree, index = self._store.load(version), self._index(top)
        restored = restore(self._store, index, top, self._left_out, tree)
        index.save()
        return restored

    def _index(self, top: int) -> Index:
        is_ours = os.fstat(top).st_dev == os.fstat(self._top).st_dev
        return Index(self._store if is_ours else None, self._mapped)


def _file_name(name: str) -> str:
    raw = os.fsencode(name)
    if not 0 < len(raw) <= MAX_NAME:
        raise ValueError(f"a version's name has 1 to {MAX_NAME} bytes")
    return raw.hex()
