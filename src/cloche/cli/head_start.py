"""Starts the nursery of a `cloche run` before the command line is parsed, so that it boots while we import the rest."""

from __future__ import annotations

import sys

from cloche import bundles, environment, settings
from cloche.walls.jail import start


def is_possible() -> bool:
    """Is the sandboxes' Python environment built?"""
    return environment.is_built(settings.environment() or environment.location())


def improve_next() -> None:
    """After the installation of a package, write its bundles while the first program runs."""
    import os

    if not environment.IS_A_PACKAGE or not os.access(os.path.dirname(bundles.__file__), os.W_OK):
        return
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    command = [sys.executable, "-c", "from cloche.cli.setup import speed_up; speed_up()"]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    os.close(null)


def begin() -> None:
    """Start the nursery; a failure is reported later, when the nursery is needed."""
    control, keeper = start.by_fork()  # first: the nursery does not wait for anything below
    bundles.load("run")
    from cloche.errors import ClocheError
    from cloche.walls.jail.nursery_client import of_this_process

    try:
        of_this_process(settings.load(one_run=True)).adopt(control, keeper)
    except ClocheError:
        control.close()  # ends the nursery


def abandon() -> None:
    """End the nursery that was begun: the program is in another language, whose toolchain it does not have."""
    from cloche.walls.jail.nursery_client import of_this_process

    of_this_process().close()


def prepare() -> None:
    """Import for a language other than Python.  There is no head start: its toolchain has to be found first."""
    bundles.load("run")
    from cloche.walls.jail.nursery_client import of_this_process

    of_this_process(settings.load(one_run=True))
