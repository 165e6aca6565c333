"""Finds the route of a request, once: the gate decides by the route's declaration, and the application runs it.

Starlette tries one regular expression after the other, which takes longer than all of the gate's checks.  The table
follows the segments of the path instead and leaves the last word to the few routes that are left.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import FastAPI
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from cloche.doors.routing.access import NOTHING_SECRET, UNKNOWN, Access, access_of
from cloche.doors.sockets import Door, Socket
from cloche.errors import Gone

AnyRoute = Route | WebSocketRoute


class _Node:
    """One segment of a path: the segments that may follow, and the routes that end here."""

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.ends: list[tuple[int, AnyRoute]] = []
        self.takes_rest: list[tuple[int, AnyRoute]] = []


class RouteTable:
    """All routes of the application; routes that are added to the application later are not reachable."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self.routes = [route for route in routes if isinstance(route, Route | WebSocketRoute)]
        self._root = _Node()
        self._literal: dict[str, list[AnyRoute]] = {}  # by the whole path
        for order, route in enumerate(self.routes):
            self._add(order, route)
        for path in self._literal:
            self._literal[path] = self._candidates(path)

    def resolve(self, scope: Scope) -> Access:
        """Find the route, note it in the scope for the application, and return the access that it declares.

        Where only the method is wrong, the scope gets a route that answers so.
        """
        path: str = scope["path"]
        other: tuple[AnyRoute, Scope] | None = None
        for route in self._literal.get(path) or self._candidates(path):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                scope["route"] = route
                return access_of(route)
            if match is Match.PARTIAL and other is None:
                other = route, found
        if other is None:
            return UNKNOWN
        scope.update(other[1])
        scope["route"] = other[0]
        return NOTHING_SECRET if access_of(other[0]).scope == "public" else UNKNOWN

    def knows(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is not Match.NONE for route in self._candidates(scope["path"]))

    def _add(self, order: int, route: AnyRoute) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if not segment.startswith("{"):
                node = node.literal.setdefault(segment, _Node())
            elif ":" in segment:  # a path with any number of segments, always the last
                node.takes_rest.append((order, route))
                return
            else:
                node.variable = node = node.variable or _Node()
        node.ends.append((order, route))
        if "{" not in route.path:
            self._literal[route.path] = []

    def _candidates(self, path: str) -> list[AnyRoute]:
        """The routes that may match, in the order in which they were added."""
        found: list[tuple[int, AnyRoute]] = []
        nodes = [self._root]
        for segment in path.split("/")[1:]:
            following = []
            for node in nodes:
                found += node.takes_rest
                if (child := node.literal.get(segment)) is not None:
                    following.append(child)
                if node.variable is not None:
                    following.append(node.variable)
            nodes = following
        for node in nodes:
            found += node.ends
        if len(found) > 1:
            found.sort(key=lambda one: one[0])
        return [route for _, route in found]


class Dispatch(BaseRoute):
    """The first route of the application: runs the route that the gate has found, and no other.

    A route that the table does not know has not been checked by the gate, so the application must not find it.
    """

    def __init__(self, table: RouteTable) -> None:
        self._table = table
        self._no_socket = Door(_refuse_socket)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return Match.FULL, {"route": scope.get("route")}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: AnyRoute | None = scope["route"]
        if route is not None:
            await route.handle(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._no_socket(scope, receive, send)
        elif (target := self._other_spelling(scope)) is not None:
            await RedirectResponse(target)(scope, receive, send)
        else:
            raise HTTPException(404)

    def _other_spelling(self, scope: Scope) -> str | None:
        """The same address with or without a slash at its end, if there is something."""
        path: str = scope["path"]
        other = {**scope, "path": path.rstrip("/") if path.endswith("/") else f"{path}/"}
        return str(URL(scope=other)) if other["path"] and self._table.knows(other) else None


def seal(app: FastAPI) -> RouteTable:
    """Make the table of all routes of an application, and have the application run no route but by way of it."""
    table = RouteTable(app.router.routes)
    app.router.routes.insert(0, Dispatch(table))
    return table


async def _refuse_socket(_: Socket) -> None:
    raise Gone("There is no WebSocket at this address.", hint="/docs lists the addresses of this server.")
