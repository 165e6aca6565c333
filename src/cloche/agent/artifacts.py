"""Artifacts: files that code creates or changes in the output folder, found by comparing scans before and after."""

from __future__ import annotations

import os

from cloche.agent import atomic_writes
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "output"  # relative to the workspace
_MAX_SCANNED, _MAX_REPORTED = 5000, 200  # files and folders to scan, and files to report
_MAX_REPORTED_BYTES = 256 << 10  # of the reported paths


def scan(home: str) -> dict[str, tuple[int, int, int]]:
    """Return the files in the output folder, each with its inode, change time and size."""
    found: dict[str, tuple[int, int, int]] = {}
    top = f"{home}/{FOLDER}"
    folders = [] if os.path.islink(top) else [top]
    remaining = _MAX_SCANNED
    while folders and remaining > 0:
        try:
            with os.scandir(folders.pop()) as scan:
                for item in scan:
                    remaining -= 1
                    if remaining < 0:
                        break
                    if item.is_dir(follow_symlinks=False):
                        folders.append(item.path)
                    elif item.is_file(follow_symlinks=False) and not atomic_writes.is_in_progress(item.name):
                        status = item.stat(follow_symlinks=False)
                        found[item.path] = status.st_ino, status.st_ctime_ns, status.st_size
        except OSError:
            continue  # the folder was removed, or is not readable
    return found


def new_or_changed(before: dict[str, Any], after: dict[str, tuple[int, int, int]]) -> list[list[Any]]:
    """Return path and size of each file that the code created or changed, within the limits of a report."""
    report: list[list[Any]] = []
    room = _MAX_REPORTED_BYTES
    for path in sorted(after):
        if before.get(path) != after[path]:
            room -= len(dumps(path))
            if len(report) == _MAX_REPORTED or room < 0:
                break
            report.append([path, after[path][2]])
    return report
