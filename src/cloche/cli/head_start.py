"""Starts the nursery of a `cloche run` before the command line is parsed, so that it boots while we import the rest."""

from __future__ import annotations

from cloche import bundles
from cloche.walls.jail import start


def begin() -> None:
    """Start the nursery; a failure is reported later, when the nursery is needed."""
    control, keeper = start.by_fork()  # first: the nursery does not wait for anything below
    bundles.load("run")
    from cloche import settings
    from cloche.errors import ClocheError
    from cloche.walls.jail.nursery_client import of_this_process

    try:
        of_this_process(settings.load(one_run=True)).adopt(control, keeper)
    except ClocheError:
        control.close()  # ends the nursery


def prepare() -> None:
    """Import for a language other than Python.  There is no head start: its toolchain has to be found first."""
    bundles.load("run")
    from cloche import settings
    from cloche.walls.jail.nursery_client import of_this_process

    of_this_process(settings.load(one_run=True))
