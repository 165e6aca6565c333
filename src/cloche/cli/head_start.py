"""Starts the nursery of a `cloche run` before its command line is even read: it boots while we import the rest."""

from __future__ import annotations

from cloche import bundles
from cloche.walls.jail import start


def begin() -> None:
    """Start it; whatever is wrong is told later, by whoever needs it."""
    control, keeper = start.by_fork()  # first of all: what follows it does not wait for
    bundles.load("run")
    from cloche import settings
    from cloche.errors import ClocheError
    from cloche.walls.jail.nurseries import of_this_process

    try:
        of_this_process(settings.load(one_run=True)).adopt(control, keeper)
    except ClocheError:
        control.close()  # which ends it


def prepare() -> None:
    """For other languages than Python: no head start, since what their sandboxes show has to be looked for first."""
    bundles.load("run")
    from cloche import settings
    from cloche.walls.jail.nurseries import of_this_process

    of_this_process(settings.load(one_run=True))
