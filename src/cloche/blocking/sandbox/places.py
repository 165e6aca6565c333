# Generated from src/cloche/sandbox/places.py by scripts/blocking.py: edit that file instead.
"""Places where sandboxes are made.  This file alone knows which there are: this host, and a server."""

from __future__ import annotations

from cloche import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import Place
    from cloche.blocking.walls.wall import Wall


def place_for(url: str | None, api_key: str | None, isolation: str, wall: Wall | None) -> Place:
    """The server at `url` (or CLOCHE_URL), or this host; a wall of the caller's own is always on this host."""
    where = settings.server() if url is None else url
    if where and wall is None:
        from cloche.blocking.client.place import ServerPlace

        return ServerPlace(where, api_key, isolation)
    from cloche.blocking.engine.place import HostPlace

    return HostPlace(isolation, wall)
