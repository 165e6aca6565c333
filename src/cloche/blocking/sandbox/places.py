# Generated from src/cloche/sandbox/places.py by scripts/blocking.py: edit that file instead.
"""Chooses the place where a sandbox is made: this host, or a server.  No other file knows the list of places."""

from __future__ import annotations

from cloche import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import Place
    from cloche.blocking.walls.wall import Wall


def place_for(url: str | None, api_key: str | None, isolation: str, wall: Wall | None) -> Place:
    """Return the server at `url` (or CLOCHE_URL), or this host.  A caller's own wall is always on this host."""
    where = settings.server() if url is None else url
    if where and wall is None:
        from cloche.blocking.client.place import ServerPlace

        return ServerPlace(where, api_key, isolation)
    from cloche.blocking.engine.place import HostPlace

    return HostPlace(isolation, wall)
