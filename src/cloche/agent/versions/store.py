"""The folder that holds the versions:

    objects/<content id>    the contents of files, each once
    versions/<name in hex>  the trees: see tree.py
    index                   the known contents of unchanged files: see index.py
    new                     any of these while it is written

Programs cannot reach the folder, and only one call at a time uses it.
"""

from __future__ import annotations

import os

from cloche.agent.versions.sparse_data import write_at
from cloche.agent.versions.tree import contents_in, packed, unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.versions.tree import Tree

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class VersionStore:
    """The versions in the open folder `fd`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        for folder in ("objects", "versions"):
            try:
                os.mkdir(folder, 0o700, dir_fd=fd)
            except FileExistsError:
                pass

    def has(self, version: str) -> bool:
        """Say whether the store has a version."""
        return version in self._names("versions")

    def load(self, version: str) -> Tree:
        """Load the tree of a version."""
        try:
            return unpacked(self.read(f"versions/{version}"))
        except FileNotFoundError:
            raise _unknown() from None

    def save(self, version: str, tree: Tree) -> None:
        """Save a version; its contents are already stored."""
        self.replace(f"versions/{version}", packed(tree))

    def forget(self, version: str) -> None:
        """Remove a version, and the contents that no other version uses."""
        try:
            os.unlink(f"versions/{version}", dir_fd=self.fd)
        except FileNotFoundError:
            raise _unknown() from None
        self.sweep()

    def sweep(self) -> None:
        """Remove the contents that no version uses."""
        used: set[str] = set()
        for version in self._names("versions"):
            used |= contents_in(self.read(f"versions/{version}"))
        for content in self.contents() - used:
            os.unlink(f"objects/{content}", dir_fd=self.fd)

    def contents(self) -> set[str]:
        """Return the ids of the stored contents."""
        return set(self._names("objects"))

    def open(self, content: str) -> int:
        """Open a content for reading."""
        return os.open(f"objects/{content}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)

    def size(self) -> int:
        """Return the disk space of the store in bytes."""
        total = 0
        for folder in (".", "objects", "versions"):
            fd = os.open(folder, _FOLDER, dir_fd=self.fd)
            try:
                with os.scandir(fd) as listing:
                    total += sum(item.stat(follow_symlinks=False).st_blocks * 512 for item in listing)
            finally:
                os.close(fd)
        return total

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        with open(fd, "rb", buffering=0) as file:
            return file.readall()

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically."""
        fd = self.begin()
        try:
            write_at(fd, memoryview(data), 0)
        except OSError:
            self.discard("new")
            raise
        finally:
            os.close(fd)
        self.finish(path)

    def begin(self) -> int:
        """Open a new, empty file for writing."""
        return os.open("new", _NEW, 0o600, dir_fd=self.fd)

    def finish(self, path: str) -> None:
        """Move the new file to its path."""
        os.rename("new", path, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def discard(self, path: str) -> None:
        """Remove a file if it exists."""
        try:
            os.unlink(path, dir_fd=self.fd)
        except FileNotFoundError:
            pass

    def _names(self, folder: str) -> list[str]:
        fd = os.open(folder, _FOLDER, dir_fd=self.fd)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)


def _unknown() -> OSError:
    return FileNotFoundError(2, "there is no version of that name")
