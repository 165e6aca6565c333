"""Opens paths on the host over no link: one that is put there between a check and a use leads nowhere."""

from __future__ import annotations

import os

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(folder: str, path: str, flags: int = os.O_PATH) -> int:
    """Open a path relative to a folder, step by step; no part of it may be a link or `..`.

    The folder itself is opened as its name says.  Opening never waits, as it would for a pipe without a writer.
    """
    at = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        *above, last = [part for part in path.split("/") if part not in ("", ".")] or ["."]
        if ".." in (*above, last):
            raise PermissionError(1, "it leads out of its folder")
        for part in above:
            below = os.open(part, _STEP | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def is_within(path: str, folder: str) -> bool:
    """Return whether a real path is a folder, or something beneath it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
