"""Going through a tree, one folder at a time and however deep, while programs may move its folders about."""

from __future__ import annotations

import errno
import os
import stat as modes

from cloche.agent.atomic_writes import is_temporary_name
from cloche.agent.versions.permissions import FOLDER, allow_inside, give_back, open_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOST = 1 << 30  # a descriptor that is never open (-1 would not do: to os.scandir it means the working directory)


class TreePosition:
    """A folder in a tree, and the way back up: at most two descriptors, however deep.  To be used in a `with`.

    `need` are the permissions that we want as the owner; a folder that lacks them has them while we are in it.
    When a program has moved the folders that we are in, `fd` may be invalid until we are back where the tree still is.
    """

    def __init__(self, top: int, need: int) -> None:
        status = os.fstat(top)
        self.device = status.st_dev
        self.unread: set[int] = set()  # folders, by the number that `walk` gave them
        self._top, self._need = top, need
        # Inode, the mode to give back and the name of every folder on the way.
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
        """Enter a folder; `fd` is then its descriptor.  EXDEV: another file system is mounted there."""
        fd, mode = open_folder(self.fd, name, self._need)
        status = os.fstat(fd)
        if status.st_dev != self.device:
            give_back(fd, mode)
            os.close(fd)
            raise OSError(errno.EXDEV, "it is mounted there")
        if mode is None:
            mode = allow_inside(fd, self._need)
        os.close(self.fd)  # open, since it could be looked into
        self._trail.append((status.st_ino, mode, name))
        self.fd = fd

    def up(self) -> None:
        """Go back to the folder above."""
        below = self.fd
        _, mode, _ = self._trail.pop()
        self.fd = self._above(below)
        if below != _LOST:
            give_back(below, mode)
            os.close(below)

    def keep_mode(self, mode: int) -> None:
        """Leave this folder with that mode."""
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
        """Down from the top, as far as things are where they were."""
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
    """Everything below a place: the number of its folder, its name and status.

    The top is folder 0, and every folder gets the next number when it is told; its contents are told later.  At each
    moment `place` is the folder of what is told; `place.unread` are the folders that were not, or only partly, told.
    """
    ahead: list[list[tuple[int, str]]] = []
    current = number = 0
    while True:
        subfolders = []
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    if is_temporary_name(item.name):
                        continue
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # it went away meanwhile
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
                except OSError:  # perhaps it went away; but what we have not seen must not be taken for empty
                    place.unread.add(current)
                    continue
            ahead.pop()
            if not ahead:
                return
            place.up()
