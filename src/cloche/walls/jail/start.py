"""Starting a launcher: by exec from any process, or by a mere fork from one that has only just begun itself.

Imports next to nothing: `cloche run` comes here before it has even read its command line.
"""

from __future__ import annotations

import marshal
import os
import sys

from cloche.walls.jail import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTROL = 3  # the launcher's end of the control socket
_LAUNCH = f"{os.path.dirname(os.path.abspath(__file__))}/launch.py"


def by_exec(configuration: dict[str, Any], debug: bool) -> tuple[sockets.Socket, int]:
    """Our end of the control socket, and the keeper's pid.  Safe in a process with threads."""
    ours, theirs = sockets.pair()
    null = os.open(os.devnull, os.O_RDWR)
    high = _duplicate_high(theirs.fileno())
    argv = [sys._base_executable, "-I", "-S", _LAUNCH, marshal.dumps(configuration).hex()]  # type: ignore[attr-defined]
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)[: 2 if debug else 3]]
        actions.append((os.POSIX_SPAWN_DUP2, high, CONTROL))
        return ours, os.posix_spawn(argv[0], argv, {}, file_actions=actions)
    finally:
        theirs.close()
        os.close(null)
        os.close(high)


def by_fork(configuration: dict[str, Any], debug: bool) -> tuple[sockets.Socket, int]:
    """The same without starting another Python: only for a process without threads, and with nothing to hide yet.

    What the sandboxes share is the nursery's memory, and the nursery is always reached by exec.
    """
    ours, theirs = sockets.pair()
    keeper = os.fork()
    if keeper:
        theirs.close()
        return ours, keeper
    try:
        from cloche.walls.jail import launch

        high = _duplicate_high(theirs.fileno())
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2)[: 2 if debug else 3]:
            os.dup2(null, fd)
        os.dup2(high, CONTROL)
        launch.keep_or_tell(configuration)
    finally:
        os._exit(1)


def _duplicate_high(fd: int) -> int:
    """The same out of the way of the numbers that are about to be overwritten."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    return fcntl(fd, F_DUPFD_CLOEXEC, 10)
