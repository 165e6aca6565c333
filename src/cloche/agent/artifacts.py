"""Artifacts: files that a cell leaves in the output folder, told by looking before and after."""

from __future__ import annotations

import os

from cloche.agent import atomic_writes
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "output"  # in the workspace
_SCANNED, _TOLD = 5000, 200  # files and folders looked at, and files told of
_TOLD_BYTES = 256 << 10  # of their names


def scan(home: str) -> dict[str, tuple[int, int, int]]:
    """The files in the output folder, and by what a change of one is recognised."""
    found: dict[str, tuple[int, int, int]] = {}
    top = f"{home}/{FOLDER}"
    ahead = [] if os.path.islink(top) else [top]
    left = _SCANNED
    while ahead and left > 0:
        try:
            with os.scandir(ahead.pop()) as scan:
                for item in scan:
                    left -= 1
                    if left < 0:
                        break
                    if item.is_dir(follow_symlinks=False):
                        ahead.append(item.path)
                    elif item.is_file(follow_symlinks=False) and not atomic_writes.is_live(item.name):
                        status = item.stat(follow_symlinks=False)
                        found[item.path] = status.st_ino, status.st_ctime_ns, status.st_size
        except OSError:
            continue  # it went away, or is not to be read
    return found


def new_or_changed(before: dict[str, Any], after: dict[str, tuple[int, int, int]]) -> list[list[Any]]:
    """What a cell has left: path and size of each, as many as can be told."""
    told: list[list[Any]] = []
    room = _TOLD_BYTES
    for path in sorted(after):
        if before.get(path) != after[path]:
            room -= len(dumps(path))
            if len(told) == _TOLD or room < 0:
                break
            told.append([path, after[path][2]])
    return told
