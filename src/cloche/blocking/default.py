# Generated from src/cloche/engine/default.py by scripts/blocking.py: edit that instead.
"""The wall that is used when the caller names none."""

from __future__ import annotations

from cloche import languages, settings
from cloche.blocking.jail import Jail
from cloche.walls.jail.nurseries import of_this_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.wall import Wall


def wall() -> Wall:
    """The jail, with the nurseries of this process."""
    return Jail(of_this_process(settings.load(), languages.visible))
