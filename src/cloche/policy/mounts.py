"""Decides which folders of the host a caller may mount, and resolves each path exactly once.

A sandbox that may write to an allowed folder can replace a directory in it by a symlink at any moment.  So the path is
opened step by step beneath the allowed folder without following a link, and the wall later compares the folder that it
mounts with the one that was checked here (`Mount.identity`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from cloche.errors import InvalidRun, Refused
from cloche.model.files import Mount

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def allowed_mounts(mounts: Sequence[Mount], folders: Sequence[str]) -> tuple[Mount, ...]:
    """The mounts with their sources resolved; raises Refused for a source outside the operator's folders."""
    return tuple(_resolved(mount, folders) for mount in mounts)


def _resolved(mount: Mount, folders: Sequence[str]) -> Mount:
    source = os.path.realpath(mount.source)
    for folder in folders:
        root = os.path.realpath(folder).rstrip("/")
        if f"{source}/".startswith(f"{root}/"):
            return mount.replace(source=source, identity=_identity(root or "/", source, mount))
    raise Refused(
        f"The folder {mount.source} may not be mounted.",
        hint="The operator lists the folders that may be mounted in `mounts` of the server's configuration.",
    )


def _identity(root: str, source: str, mount: Mount) -> tuple[int, int]:
    """Open the path beneath the root without following a link; its device and inode."""
    at = os.open(root, _STEP)
    try:
        for name in filter(None, source.removeprefix(root).split("/")):
            below = os.open(name, _STEP, dir_fd=at)
            os.close(at)
            at = below
        found = os.fstat(at)
    except OSError as problem:
        raise InvalidRun(f"{mount.source} cannot be mounted: {problem.strerror}.") from None
    finally:
        os.close(at)
    if stat.S_ISLNK(found.st_mode):
        raise InvalidRun(f"{mount.source} cannot be mounted: it changed while it was checked.", hint="Try again.")
    return found.st_dev, found.st_ino
