"""Walks a tree one folder at a time, to any depth, while programs may move its folders."""

from __future__ import annotations

import errno
import os
import stat as modes

from cloche.agent.atomic_writes import is_temporary_name
from cloche.agent.versions.permissions import FOLDER, allow_inside, give_back, open_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOST = 1 << 30  # never an open descriptor (not -1: os.scandir takes that for the working directory)


class TreePosition:
    """The current folder of a walk, and the way back up, with at most two descriptors.  Use it in a `with`.

    `need` are the permissions that we need as the owner; a folder that lacks them gets them while we are in it.  The
    names in `left_out` at the top are not part of the tree.  If a program moves the folders that we are in, `fd` may be
    invalid until the walk is back in the tree.
    """

    def __init__(self, top: int, need: int, left_out: frozenset[str] = frozenset()) -> None:
        status = os.fstat(top)
        self.device = status.st_dev
        self.unread: set[int] = set()  # folders, by their number in `walk`
        self._top, self._need, self._left_out = top, need, left_out
        # Inode, mode to restore and name of every folder on the way.
        self._trail = [(status.st_ino, allow_inside(top, need), "")]
        self.fd = os.open(".", FOLDER, dir_fd=top)

    def __enter__(self) -> TreePosition:
        return self

    def __exit__(self, *_: object) -> None:
        while len(self._trail) > 1:
            self.up()
        give_back(self._top, self._trail[0][1])
        if self.fd != _LOST:
            os.close(self.fd)

    def down(self, name: str) -> None:
        """Enter a subfolder, so that `fd` is its descriptor.  EXDEV: another file system is mounted there."""
        fd, mode = open_folder(self.fd, name, self._need)
        status = os.fstat(fd)
        if status.st_dev != self.device:
            give_back(fd, mode)
            os.close(fd)
            raise OSError(errno.EXDEV, "another file system is mounted there")
        if mode is None:
            mode = allow_inside(fd, self._need)
        os.close(self.fd)  # not _LOST, because a subfolder was just opened in it
        self._trail.append((status.st_ino, mode, name))
        self.fd = fd

    def up(self) -> None:
        """Return to the parent folder."""
        below = self.fd
        _, mode, _ = self._trail.pop()
        self.fd = self._above(below)
        if below != _LOST:
            give_back(below, mode)
            os.close(below)

    def leaves_out(self, name: str) -> bool:
        """Say whether an entry of the current folder is not part of the tree."""
        return name in self._left_out and len(self._trail) == 1

    def keep_mode(self, mode: int) -> None:
        """Set the mode that the current folder gets when we leave it."""
        inode, to_give_back, name = self._trail[-1]
        if to_give_back is not None or modes.S_IMODE(os.fstat(self.fd).st_mode) != mode:
            self._trail[-1] = (inode, mode, name)

    def _above(self, below: int) -> int:
        if below != _LOST:
            try:
                fd = os.open("..", FOLDER, dir_fd=below)
            except OSError:
                pass
            else:
                if self._is(fd, self._trail[-1][0]):
                    return fd
                os.close(fd)
        return self._found_again()

    def _found_again(self) -> int:
        """Go down again from the top, as far as the folders are still in their places."""
        try:
            fd = os.open(".", FOLDER, dir_fd=self._top)
        except OSError:
            return _LOST
        for inode, _, name in self._trail[1:]:
            above = fd
            try:
                fd = os.open(name, FOLDER, dir_fd=above)
            except OSError:
                return _LOST
            finally:
                os.close(above)
            if not self._is(fd, inode):
                os.close(fd)
                return _LOST
        return fd

    def _is(self, fd: int, inode: int) -> bool:
        status = os.fstat(fd)
        return status.st_ino == inode and status.st_dev == self.device


def walk(place: TreePosition) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield everything below a position: the number of its folder, its name and its status.

    The top is folder 0.  Each folder gets the next number when it is yielded; its entries follow later.  Meanwhile
    `place` is the folder of the yielded entry.  `place.unread` are the folders that were not read, or not completely.
    """
    ahead: list[list[tuple[int, str]]] = []
    current = number = 0
    while True:
        subfolders = []
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    if is_temporary_name(item.name) or place.leaves_out(item.name):
                        continue
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # removed in the meantime
                    if status.st_dev != place.device:
                        continue
                    if modes.S_ISDIR(status.st_mode):
                        number += 1
                        subfolders.append((number, item.name))
                    yield current, item.name, status
        except OSError:
            place.unread.add(current)
        ahead.append(subfolders)
        while True:
            if ahead[-1]:
                current, name = ahead[-1].pop()
                try:
                    place.down(name)
                    break
                except OSError:  # it may be gone, but a folder that was not read must not be taken for empty
                    place.unread.add(current)
                    continue
            ahead.pop()
            if not ahead:
                return
            place.up()
