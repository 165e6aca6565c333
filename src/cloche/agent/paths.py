"""Paths in requests, and opening the files that they lead to."""

from __future__ import annotations

import os
import stat as modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.main import Agent


def resolve(agent: Agent, path: str) -> str:
    """Return the absolute form of a path in a request; relative paths start at the workspace."""
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL byte")
    if path == "~" or path.startswith("~/"):
        path = agent.home + path[1:]
    return os.path.normpath(os.path.join(agent.home, path))


def open_regular(path: str, flags: int, mode: int = 0o644) -> int:
    """Open a regular file; a program may have put something else in its place."""
    # Not blocking, so that a fifo without a writer is an error and not an endless wait.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    status = os.fstat(fd)
    if not modes.S_ISREG(status.st_mode):
        os.close(fd)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "it is a directory, not a file")
        raise OSError(22, "it is not a regular file")
    return fd
