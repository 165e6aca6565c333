"""The wall that is used when the caller brings none: the jail, or another by its name."""

from __future__ import annotations

from cloche import languages, settings
from cloche.errors import InvalidRun
from cloche.walls.jail.nursery_client import of_this_process
from cloche.walls.jail.wall import AsyncJail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.settings import Settings
    from cloche.walls.wall import AsyncWall


def wall(isolation: str = "auto", known: Settings | None = None) -> AsyncWall:
    """The wall of this name; "auto" is the jail, with the nurseries of this process."""
    if isolation in ("auto", "jail"):
        return AsyncJail(of_this_process(known, languages.visible))
    if isolation == "e2b":
        from cloche.walls.e2b.wall import AsyncE2B  # it takes packages along that nobody else needs

        known = known or settings.load()
        return AsyncE2B(
            known.e2b_api_key,
            api_url=known.e2b_api_url,
            sandbox_url=known.e2b_sandbox_url,
            template=known.e2b_template,
        )
    from cloche.model.isolation import ISOLATIONS

    raise InvalidRun(f"There is no isolation {isolation!r:.100}.", hint=f"Choose one of {', '.join(ISOLATIONS)}.")
