"""Removing a folder with all that is in it, but for what is mounted there."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.agent.versions.tree_walk import TreePosition

    Failed = Callable[[str, OSError], None]


def remove_folder(place: TreePosition, name: str, failed: Failed) -> int:
    """Remove a subfolder of the place that we are at, and return to it; returns how many things were removed."""
    place.down(name)
    removed, subfolders = _clear(place, failed)
    ahead = [(name, subfolders)]
    while ahead:
        name, subfolders = ahead[-1]
        if subfolders:
            below = subfolders.pop()
            try:
                place.down(below)
            except OSError as problem:
                if problem.errno != errno.EXDEV:
                    failed(below, problem)
                continue
            count, subfolders = _clear(place, failed)
            removed += count
            ahead.append((below, subfolders))
            continue
        ahead.pop()
        place.up()
        try:
            os.rmdir(name, dir_fd=place.fd)
            removed += 1
        except OSError as problem:
            # It went away, a mount is in it, or a program has put something there meanwhile.
            if problem.errno not in (errno.ENOENT, errno.EBUSY, errno.ENOTEMPTY):
                failed(name, problem)
    return removed


def _clear(place: TreePosition, failed: Failed) -> tuple[int, list[str]]:
    """Remove what can be removed from a folder right away; returns how much, and the subfolders that are not empty."""
    removed, left = 0, []
    try:
        with os.scandir(place.fd) as listing:
            for item in listing:
                try:
                    if item.is_dir(follow_symlinks=False):
                        os.rmdir(item.name, dir_fd=place.fd)
                    else:
                        os.unlink(item.name, dir_fd=place.fd)
                    removed += 1
                except FileNotFoundError:
                    continue
                except OSError as problem:
                    if item.is_dir(follow_symlinks=False):
                        left.append(item.name)
                    elif problem.errno != errno.EBUSY:  # a file that is mounted
                        failed(item.name, problem)
    except OSError as problem:
        failed("a folder", problem)
    return removed, left
