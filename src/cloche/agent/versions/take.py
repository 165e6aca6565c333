"""Takes a version: walks a tree once and puts the contents of its files into the store."""

from __future__ import annotations

import errno
import os
import stat as modes

from cloche.agent.versions.content_store import ContentStore
from cloche.agent.versions.index import now, signature
from cloche.agent.versions.permissions import open_file
from cloche.agent.versions.sparse_data import NO_ROOM
from cloche.agent.versions.tree import too_many
from cloche.agent.versions.tree_walk import TreePosition, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.versions.index import Index
    from cloche.agent.versions.store import VersionStore
    from cloche.agent.versions.tree import File, Folder

_REREAD_BYTES = 16 << 20  # bytes; a file up to this size is read again if it changed while it was read


def take(
    store: VersionStore, index: Index, top: int, left_out: frozenset[str], version: str, most: int
) -> dict[str, int]:
    """Record the tree at `top`.  On failure, remove what was stored, and report the missing room if that is why."""
    contents = ContentStore(store)
    taking = _Taking(contents, index)
    try:
        taking.run(top, left_out, most)
        store.save(version, (taking.folders, taking.files))
    except BaseException as problem:
        needed = taking.needed + sum(contents.added.values())
        files = taking.needed_files + len(contents.added) + 1
        contents.take_back()
        if isinstance(problem, OSError) and problem.errno in NO_ROOM:
            raise OSError(errno.ENOSPC, _room_wanted(store, needed, files)) from problem
        raise
    return {
        "files": len(taking.files),
        "folders": len(taking.folders) - 1,
        "bytes": sum(file[4] for file in taking.files),
        "added": sum(contents.added.values()),
        "unsteady": taking.unsteady,
        "unread": taking.unread,
    }


class _Taking:
    """A version in the making."""

    def __init__(self, contents: ContentStore, index: Index) -> None:
        self.folders: list[Folder] = []
        self.files: list[File] = []
        self.unsteady = self.unread = 0
        # Bytes and files that do not fit; once there is one, the rest is only counted.
        self.needed = self.needed_files = 0
        self._contents, self._index = contents, index

    def run(self, top: int, left_out: frozenset[str], most: int) -> None:
        """Walk the tree once."""
        status = os.fstat(top)
        self.folders.append((0, "", modes.S_IMODE(status.st_mode), status.st_mtime_ns))
        with TreePosition(top, 0o500, left_out) as place:
            for parent, name, status in walk(place):
                if len(self.folders) + len(self.files) > most:
                    raise too_many(most)
                if modes.S_ISDIR(status.st_mode):
                    self.folders.append((parent, name, modes.S_IMODE(status.st_mode), status.st_mtime_ns))
                    continue
                try:
                    self.files.append(self._file(place.fd, parent, name, status))
                except FileNotFoundError:
                    continue  # removed in the meantime
        if self.needed_files:
            raise OSError(errno.ENOSPC, "")
        if 0 in place.unread:
            raise OSError(errno.EIO, "the folder cannot be read")
        for number in place.unread:
            self.folders[number] = (*self.folders[number][:3], None)
        self.unread += len(place.unread)

    def _file(self, folder: int, parent: int, name: str, status: os.stat_result) -> File:
        """Return the record of anything but a folder; stores the content of a regular file."""
        mode, mtime, size = status.st_mode, status.st_mtime_ns, status.st_size
        if modes.S_ISLNK(mode):
            return (parent, name, mode, mtime, size, os.readlink(name, dir_fd=folder))
        if not modes.S_ISREG(mode):
            return (parent, name, mode, mtime, 0, None)
        content = self._index.content(status)
        if content is not None and content in self._contents:
            return (parent, name, mode, mtime, size, content)
        try:
            if not self.needed_files:
                return self._read(folder, parent, name)
            self._add_up(status)
        except FileNotFoundError:
            raise
        except OSError as problem:
            if problem.errno in NO_ROOM:
                self._add_up(status)
            else:
                self.unread += 1
        return (parent, name, mode, mtime, size, None)

    def _add_up(self, status: os.stat_result) -> None:
        self.needed += min(status.st_size, status.st_blocks * 512)
        self.needed_files += 1

    def _read(self, folder: int, parent: int, name: str) -> File:
        fd = open_file(folder, name)
        try:
            for attempt in range(3):
                since = now()
                before = os.fstat(fd)
                added = len(self._contents.added)
                content, size = self._contents.keep(fd, before.st_size)
                if signature(before) == signature(os.fstat(fd)):
                    self._index.learn(before, content, since)
                    break
                if attempt == 2 or size > _REREAD_BYTES:
                    self.unsteady += 1
                    break
                self._contents.take_back(added)
            return (parent, name, before.st_mode, before.st_mtime_ns, size, content)
        finally:
            os.close(fd)


def _room_wanted(store: VersionStore, size: int, files: int) -> str:
    disk = os.fstatvfs(store.fd)
    needed, free = f"{size:,} bytes", f"{disk.f_bavail * disk.f_frsize:,} bytes"
    if disk.f_files:  # otherwise the number of files is not limited
        needed, free = f"{needed} and {files:,} files", f"{free} and {disk.f_favail:,} files"
    return f"no room for a version of the files: it needs about {needed} more, and there is room for {free}"
