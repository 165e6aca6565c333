"""Decides which folders of the host a caller may mount, and resolves each path exactly once.

A sandbox that may write to an allowed folder can replace a directory in it by a symlink at any moment.  So the
operator's folders are resolved when the server starts, a caller's path is opened step by step without following a link,
and the wall later compares the folder that it mounts with the one that was checked here (`Mount.identity`).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from cloche.beneath import is_within, open_beneath
from cloche.errors import InvalidRun, Refused
from cloche.model.files import Mount

_ALLOWED = "The operator lists the folders that may be mounted in `mounts` of the server's configuration."
# The programs that the server and all sandboxes run.
_PROGRAMS = (os.path.realpath(sys.prefix), str(Path(__file__).resolve().parent.parent))


class MountPolicy:
    """The folders that the operator allows, without those that are the server's own."""

    def __init__(self, folders: Sequence[str], data: str | os.PathLike[str], shown: Sequence[str] = ()) -> None:
        """`shown` are the folders that sandboxes see and believe: their Python environment, and prepared files."""
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._data = os.path.realpath(data)
        self._shown = [os.path.realpath(folder) for folder in shown]

    def check(self, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Return the mounts with their sources resolved; raises Refused for a source that may not be mounted."""
        return tuple(self._resolved(mount) for mount in mounts)

    def _resolved(self, mount: Mount) -> Mount:
        source = _real(mount)
        if not any(is_within(source, folder) for folder in self._folders):
            raise Refused(f"The folder {mount.source} may not be mounted.", hint=_ALLOWED)
        own = (self._data, *_PROGRAMS, *self._shown) if mount.writable else (self._data,)
        if any(is_within(source, folder) or is_within(folder, source) for folder in own):
            raise Refused(
                f"The folder {mount.source} may not be mounted{' for writing' if mount.writable else ''}: "
                "it has files of the server itself.",
                hint="Mount a folder in it that has none, or ask the operator to keep the server's files elsewhere.",
            )
        return mount.replace(source=source, identity=_identity(source, mount))


def _real(mount: Mount) -> str:
    try:
        return os.path.realpath(mount.source)
    except OSError as problem:  # a link that is no link any more when it is read
        raise InvalidRun(f"{mount.source} cannot be mounted: {problem.strerror}.", hint="Try again.") from None


def _identity(source: str, mount: Mount) -> tuple[int, int]:
    """Open the path without following a link; its device and inode."""
    try:
        at = open_beneath("/", source)
    except OSError as problem:
        raise InvalidRun(f"{mount.source} cannot be mounted: {problem.strerror}.") from None
    try:
        found = os.fstat(at)
    finally:
        os.close(at)
    if stat.S_ISLNK(found.st_mode):
        raise InvalidRun(f"{mount.source} cannot be mounted: it changed while it was checked.", hint="Try again.")
    return found.st_dev, found.st_ino
