"""Lists every route behind the gate with the access that it declares, for docs/access.md and the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.routing import Route

from cloche.doors.routing.access import Access, access_of
from cloche.doors.routing.table import RouteTable


class Declared(NamedTuple):
    """One method of one address."""

    door: str
    method: str
    path: str
    access: Access


PORT_HOSTS = (
    # Told apart by the name of the host, so they have no path of ours.
    Declared("ports", "any", "TOKEN.localhost", Access("port", "stream", stream="port")),
    Declared("ports", "WebSocket", "TOKEN.localhost", Access("port", stream="port")),
)


def declarations(routes: RouteTable) -> Iterable[Declared]:
    """The routes of the HTTP application: HTTP, WebSockets, MCP, ports and pages."""
    for route in routes.routes:
        methods = sorted(route.methods or ("any",)) if isinstance(route, Route) else ("WebSocket",)
        door = {"mcp": "MCP", "port": "ports", "port_websocket": "ports"}.get(route.name, "HTTP")
        for method in methods:
            yield Declared(door, method, route.path, access_of(route))
