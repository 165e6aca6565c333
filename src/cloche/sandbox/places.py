"""Chooses the place where a sandbox is made: this host, or a server.  No other file knows the list of places."""

from __future__ import annotations

from cloche import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.sandbox.backend import AsyncPlace
    from cloche.walls.wall import AsyncWall


def place_for(url: str | None, api_key: str | None, isolation: str, wall: AsyncWall | None) -> AsyncPlace:
    """Return the server at `url` (or CLOCHE_URL), or this host.  A caller's own wall is always on this host."""
    where = settings.server() if url is None else url
    if where and wall is None:
        from cloche.client.place import AsyncServerPlace

        return AsyncServerPlace(where, api_key, isolation)
    from cloche.engine.place import AsyncHostPlace

    return AsyncHostPlace(isolation, wall)
