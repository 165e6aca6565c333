"""The folder in which the server keeps its data: nobody else may look into it, and it must have room."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from time import monotonic

from cloche.errors import Misconfigured, Unavailable

MIN_FREE = 16 << 20  # bytes, or a twentieth of a small disk
_PROBE_BYTES = 64 << 10
_FRESH_S = 2.0  # for which an answer holds: strangers may ask for it as often as they like
_CONTENTS = (
    "key",
    "secrets-key",
    "cloche.db",
    "cloche.db-wal",
    "cloche.db-shm",
    "journal",
    "workspaces",
    "snapshots",
    "shares",
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class DataFolder:
    """The data directory of one server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checking = asyncio.Lock()
        self._until, self._problem = 0.0, ""

    async def open(self) -> None:
        """Make the folder, and take the rights of others from everything in it that an earlier server left."""
        try:
            await asyncio.to_thread(_prepare, self._path)
        except OSError as problem:
            raise Misconfigured(
                f"The data directory {self._path} cannot be used: {problem.strerror}.",
                hint="Let the server's user write there, or choose another directory: --data-dir or CLOCHE_DATA_DIR.",
            ) from None

    async def check_room(self) -> None:
        """Raise unless the server can write here, and has room for more than a few bytes."""
        async with self._checking:
            if monotonic() >= self._until:
                self._problem = await asyncio.to_thread(_find_problem, self._path)
                self._until = monotonic() + _FRESH_S
        if self._problem:
            raise Unavailable(self._problem, hint="The operator has to make room on the server's disk.")


def _prepare(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.stat().st_mode & stat.S_ISVTX:  # a folder like /tmp is not the server's alone
        _close_to_others(path)
    for name in _CONTENTS:  # and nothing else: an operator may have chosen a folder that holds other things
        _close_to_others(path / name)
        for place, folders, files in os.walk(path / name):
            for entry in (*folders, *files):
                _close_to_others(Path(place, entry))


def _close_to_others(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        pass  # it does not exist yet, or was removed meanwhile


def _find_problem(path: Path) -> str:
    try:
        space = os.statvfs(path)
        free = space.f_frsize * (space.f_bfree if os.geteuid() == 0 else space.f_bavail)
        if free < min(MIN_FREE, space.f_frsize * space.f_blocks // 20):
            return "The server's disk is full."
        fd = os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, bytes(_PROBE_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        return "The server cannot write to its disk."
    return ""
