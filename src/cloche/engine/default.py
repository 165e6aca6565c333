"""The wall that is used when the caller names none."""

from __future__ import annotations

from cloche import languages, settings
from cloche.walls.jail.nurseries import of_this_process
from cloche.walls.jail.wall import AsyncJail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.wall import AsyncWall


def wall() -> AsyncWall:
    """The jail, with the nurseries of this process."""
    return AsyncJail(of_this_process(settings.load(), languages.visible))
