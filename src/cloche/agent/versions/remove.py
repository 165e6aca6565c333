"""Removes a folder with everything in it, except for mounts."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.agent.versions.tree_walk import TreePosition

    Failed = Callable[[str, OSError], None]


def remove_folder(place: TreePosition, name: str, failed: Failed) -> int:
    """Remove a subfolder of the current position and return to it; returns the number of removed entries."""
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
            # It is gone, has a mount in it, or a program has just put something there.
            if problem.errno not in (errno.ENOENT, errno.EBUSY, errno.ENOTEMPTY):
                failed(name, problem)
    return removed


def _clear(place: TreePosition, failed: Failed) -> tuple[int, list[str]]:
    """Remove files and empty folders at once; returns their number, and the folders that are not empty."""
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
                    elif problem.errno != errno.EBUSY:  # a mounted file
                        failed(item.name, problem)
    except OSError as problem:
        failed("a folder", problem)
    return removed, left
