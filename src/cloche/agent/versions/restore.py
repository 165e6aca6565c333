"""Restores a version: walks a tree once and changes it back."""

from __future__ import annotations

import errno
import os
import stat as modes

from cloche.agent.atomic_writes import is_in_progress
from cloche.agent.versions.compare import has_content
from cloche.agent.versions.index import now
from cloche.agent.versions.permissions import chmod
from cloche.agent.versions.remove import remove_folder
from cloche.agent.versions.sparse_data import NO_ROOM, copy
from cloche.agent.versions.tree import entries
from cloche.agent.versions.tree_walk import TreePosition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.versions.index import Index
    from cloche.agent.versions.store import VersionStore
    from cloche.agent.versions.tree import Entries, File, Folder, Tree

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(store: VersionStore, index: Index, top: int, left_out: frozenset[str], tree: Tree) -> dict[str, Any]:
    """Restore the tree at `top` as far as possible."""
    restoring = _Restoring(store, index, tree)
    restoring.run(top, left_out)
    if restoring.lacked_room:  # the first pass may have freed some; this one removes files before it writes
        restoring.is_frugal = True
        restoring.run(top, left_out)
    return {
        "written": restoring.written,
        "removed": restoring.removed,
        "unchanged": restoring.unchanged,
        "bytes": restoring.bytes,
        "problem": restoring.problem,
    }


class _Restoring:
    """A restore in progress."""

    def __init__(self, store: VersionStore, index: Index, tree: Tree) -> None:
        self.is_frugal = False  # remove obstacles before writing, instead of renaming over them
        self.lacked_room = False
        self.written = self.removed = self.unchanged = self.bytes = 0
        self.problem: str | None = None
        self._store, self._index = store, index
        self._folders, self._entries = tree[0], entries(tree)

    def run(self, top: int, left_out: frozenset[str]) -> None:
        """Walk the tree once: remove and write on the way down, set modes and times on the way up."""
        self.problem, self.lacked_room = None, False
        self.unchanged = -self.written  # files written by an earlier pass count as right in this one
        with TreePosition(top, 0o700, left_out) as place:
            ahead = [(0, self._arrange(place, self._entries[0]))]
            while ahead:
                current, subfolders = ahead[-1]
                if subfolders:
                    number, name = subfolders.pop()
                    if self._enter(place, number, name):
                        ahead.append((number, self._arrange(place, self._entries[number])))
                    continue
                self._finish(place, self._folders[current])
                ahead.pop()
                if ahead:
                    place.up()

    def _enter(self, place: TreePosition, number: int, name: str) -> bool:
        if self._folders[number][3] is None:
            return False  # the version could not read it
        try:
            place.down(name)
        except OSError as problem:
            if problem.errno != errno.EXDEV:
                self._failed(name, problem)
            return False
        return True

    def _finish(self, place: TreePosition, folder: Folder) -> None:
        _, name, mode, mtime = folder
        try:
            status = os.fstat(place.fd)
            if mtime is not None and status.st_mtime_ns != mtime and status.st_uid == os.getuid():
                os.utime(place.fd, ns=(mtime, mtime))
            place.keep_mode(mode)
        except OSError as problem:
            self._failed(name, problem)

    def _arrange(self, place: TreePosition, wanted: Entries) -> list[tuple[int, str]]:
        """Restore one folder's entries; creates its subfolders and returns them."""
        missing = dict(wanted)
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    try:
                        if self._stays(place, item.name, wanted.get(item.name)):
                            missing.pop(item.name, None)
                    except FileNotFoundError:
                        continue  # removed in the meantime
                    except OSError as problem:
                        self._failed(item.name, problem)
        except OSError as problem:
            self._failed("a folder", problem)
        subfolders = [(want, name) for name, want in wanted.items() if isinstance(want, int)]
        # After the listing, so that new entries do not appear in it.
        for name, want in missing.items():
            try:
                if not isinstance(want, int):
                    self._write(place.fd, want)
                    continue
                os.mkdir(name, 0o700, dir_fd=place.fd)
                self.written += 1
            except OSError as problem:
                self._failed(name, problem)
        return subfolders

    def _stays(self, place: TreePosition, name: str, want: int | File | None) -> bool:
        """Say whether an entry can stay; removes it unless a file will be written over it."""
        if is_in_progress(name) or place.leaves_out(name):
            return True
        # Not `item.stat`, which uses the descriptor that the listing started with.
        status = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
        if status.st_dev != place.device:
            return True  # a mount is not part of the tree
        if modes.S_ISDIR(status.st_mode):
            if isinstance(want, int):
                self.unchanged += 1
                return True
            self.removed += remove_folder(place, name, self._failed)
            return False
        if want is None or isinstance(want, int):
            os.unlink(name, dir_fd=place.fd)
            self.removed += 1
            return False
        return self._is_right(place.fd, want, status)

    def _is_right(self, folder: int, file: File, status: os.stat_result) -> bool:
        """Say whether a file need not be written; fixes mode and time if only these differ."""
        _, name, mode, mtime, _, content = file
        since = now()
        if not has_content(self._store, self._index, folder, file, status):
            return False
        if content is None or (status.st_mode == mode and status.st_mtime_ns == mtime):
            # No content: it could not be read, or it is a socket or fifo that may be in use.
            self._learn(file, status, since)
            self.unchanged += 1
            return True
        if status.st_nlink > 1:
            return False  # its other names may be elsewhere, and must not change
        if status.st_mode != mode:
            chmod(folder, name, modes.S_IMODE(mode))
        os.utime(name, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)
        after = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if after.st_ino == status.st_ino:
            self._learn(file, after, since)
        self.written += 1
        return True

    def _write(self, folder: int, file: File) -> None:
        """Create a file under a temporary name and rename it when it is complete."""
        _, name, mode, mtime, size, content = file
        if content is None and not modes.S_ISFIFO(mode):
            return  # a socket, or a file that could not be read
        beside = f".cloche-{os.urandom(8).hex()}"
        try:
            if self.is_frugal:
                _discard(folder, name)
            if content is not None and modes.S_ISREG(mode):
                self._write_regular(folder, file, beside, content)
                self.bytes += size
            else:
                if content is None:
                    os.mkfifo(beside, dir_fd=folder)
                    chmod(folder, beside, modes.S_IMODE(mode))
                else:
                    os.symlink(content, beside, dir_fd=folder)
                os.utime(beside, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            _discard(folder, beside)
            raise
        self.written += 1

    def _write_regular(self, folder: int, file: File, beside: str, content: str) -> None:
        _, name, mode, mtime, size, _ = file
        source = self._store.open(content)
        try:
            target = os.open(beside, _CREATE, 0o600, dir_fd=folder)
            try:
                copy(source, target, size)
                os.fchmod(target, modes.S_IMODE(mode))
                os.utime(target, ns=(mtime, mtime))
                since = now()
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
                self._learn(file, os.fstat(target), since)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _learn(self, file: File, status: os.stat_result, since: int) -> None:
        _, _, _, mtime, _, content = file
        if content is not None and modes.S_ISREG(status.st_mode) and status.st_mtime_ns == mtime:
            self._index.learn(status, content, since)

    def _failed(self, name: str, problem: OSError) -> None:
        if problem.errno in NO_ROOM:
            self.lacked_room = True
        if self.problem is None:
            self.problem = f"{name[:200]}: {problem.strerror}"


def _discard(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
