"""The table of walls.  A cold `cloche run` reads it, so no module of a wall is imported before that wall is made."""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model.isolation import AUTO, ISOLATIONS
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.settings import Settings
    from cloche.walls.wall import AsyncWall

DEFAULT = "jail"  # what "auto" stands for


class WallEntry(Plain):
    """One wall: a row of the table."""

    name: str  # the caller's isolation=, and `Result.wall`
    summary: str
    needs: str
    make: Callable[[Settings | None], AsyncWall]
    """Makes a wall that shares its processes with everything else in this process.  Without settings it takes those
    that it was made with before, or loads them: the jail is asked for on every run."""
    make_separate: Callable[[Settings], tuple[AsyncWall, Callable[[], None]]] | None = None
    """Makes a wall that shares nothing, and the function that ends it: for the trials and attacks of `cloche doctor`.
    None for a wall whose sandboxes are not on this host: they may cost money, and are not ours to attack."""
    setting: str = ""  # the setting that the operator of a server makes to offer the wall; empty: it is always offered
    cannot: tuple[str, ...] = ()  # what an order may ask for and the wall refuses: names from FEATURES


# What an order may ask for, beside things that every wall has to do.  tests/contract checks each of them behind each
# wall: that it works, or that the wall refuses it clearly.
FEATURES = ("mounts", "pause", "memory", "cpu", "disk", "processes")


def _visible_folders() -> dict[str, Any]:
    """The host's folders that sandboxes see; imported late, since a cold `cloche run` has found them already."""
    from cloche.languages.host_folders import visible_folders

    return visible_folders()


def _jail(settings: Settings | None) -> AsyncWall:
    from cloche.walls.jail.nursery_client import of_this_process
    from cloche.walls.jail.wall import AsyncJail

    return AsyncJail(of_this_process(settings, _visible_folders))


def _separate_jail(settings: Settings) -> tuple[AsyncWall, Callable[[], None]]:
    from cloche.walls.jail.nursery_client import Nurseries
    from cloche.walls.jail.wall import AsyncJail

    nurseries = Nurseries(settings, visible=_visible_folders)
    return AsyncJail(nurseries), nurseries.close


def _e2b(settings: Settings | None) -> AsyncWall:
    from cloche.settings import load
    from cloche.walls.e2b.wall import AsyncE2B

    settings = settings or load()
    return AsyncE2B(
        settings.e2b_api_key,
        api_url=settings.e2b_api_url,
        sandbox_url=settings.e2b_sandbox_url,
        template=settings.e2b_template,
    )


WALLS = (
    WallEntry(
        "jail",
        "namespaces, Landlock, a system-call filter and control groups on this host",
        "Linux 5.12 or later with user namespaces, or root",
        _jail,
        _separate_jail,
    ),
    WallEntry(
        "e2b",
        "sandboxes on a service that speaks E2B's protocol",
        "E2B's client (pip install 'cloche[e2b]') and a key for the service",
        _e2b,
        setting="e2b_api_key",
        cannot=FEATURES,
    ),
)


def find(isolation: str) -> WallEntry:
    """The wall of this name; InvalidRun when there is none."""
    name = DEFAULT if isolation == AUTO else isolation
    for entry in WALLS:
        if entry.name == name:
            return entry
    from cloche.nearest import did_you_mean

    hint = f"{did_you_mean(isolation, ISOLATIONS)} There are {', '.join(ISOLATIONS)}.".lstrip()
    raise InvalidRun(f"There is no isolation {isolation!r:.100}.", hint=hint)


def wall(isolation: str = AUTO, settings: Settings | None = None) -> AsyncWall:
    """Make the wall of this name."""
    return find(isolation).make(settings)


def is_offered(entry: WallEntry, settings: Settings) -> bool:
    """Return whether the operator of a server with these settings offers the wall."""
    return not entry.setting or bool(getattr(settings, entry.setting))


def variable(entry: WallEntry) -> str:
    """The environment variable with which an operator offers the wall."""
    return f"CLOCHE_{entry.setting.upper()}"
