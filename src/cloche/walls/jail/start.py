"""Starts a launcher: by exec from any process, or only by a fork from a process that has just started.

This module imports almost nothing: `cloche run` uses it before it has read its command line.
"""

from __future__ import annotations

import marshal
import os
import sys
from _socket import MSG_PEEK

from cloche.walls import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.settings import Settings

CONTROL = 3  # the launcher's end of the control socket
_HEAD_START_S = 0.012  # a little longer than the start takes on an idle host
_LAUNCH = f"{os.path.dirname(os.path.abspath(__file__))}/launch.py"


def by_exec(configuration: dict[str, Any], debug: bool) -> tuple[sockets.Socket, int]:
    """Start a launcher, even from a process with threads; return our end of the control socket and the keeper's pid."""
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


def by_fork() -> tuple[sockets.Socket, int]:
    """Start a launcher for a single run, without starting another Python: only in a process that has no threads yet.

    Sandboxes share the nursery's memory, and the nursery is always started by exec, so nothing of this process gets
    into a sandbox.  The launcher finds out its configuration by itself.
    """
    ours, theirs = sockets.pair()
    keeper = os.fork()
    if keeper:
        theirs.close()
        _let_it_go_first(ours)
        return ours, keeper
    try:
        from cloche import settings
        from cloche.walls.jail import launch

        chosen = settings.load(one_run=True)
        os.dup2(theirs.fileno(), CONTROL)  # first: it may be 0, 1 or 2 if those were closed
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2)[: 2 if chosen.debug else 3]:
            os.dup2(null, fd)

        def the_rest() -> dict[str, Any]:
            from cloche import bundles

            bundles.load("keeper")
            from cloche.walls.jail.nursery_client import ONE_RUN, configuration

            return configuration(chosen, ONE_RUN, frozenset())

        launch.keep_or_tell(places(chosen), the_rest)
    finally:
        os._exit(1)


def _let_it_go_first(control: sockets.Socket) -> None:
    """Wait until the nursery's Python starts and has its configuration.

    This process needs the nursery anyway, and would only take processors away from it meanwhile.  On a busy host the
    wait is given up, so that this process gets its share, too.
    """
    control.settimeout(_HEAD_START_S)
    try:
        control.recv(1, MSG_PEEK)  # a message that it starts, or the reason why it cannot, or the end
    except TimeoutError:
        pass
    control.settimeout(None)


def places(settings: Settings) -> dict[str, Any]:
    """The folders of the host that the sandboxes' root file system is made of."""
    from cloche import environment

    return {
        "library": os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        "environment": settings.environment or environment.location(),
        "base_prefix": sys.base_prefix,
        "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "without": [],
    }


def _duplicate_high(fd: int) -> int:
    """A copy of a descriptor, above the numbers that are about to be overwritten."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    return fcntl(fd, F_DUPFD_CLOEXEC, 10)
