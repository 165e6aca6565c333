"""Finds the route of a request, once: the gate decides by the route's declaration, and the application runs it.

Starlette tries one regular expression after the other, which takes longer than all of the gate's checks.  The table
follows the segments of the path instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


class _Entry(NamedTuple):
    """A route, prepared for finding it."""

    order: int  # routes that were added earlier come first
    route: AnyRoute
    access: Access
    type: str
    methods: frozenset[str] | None
    names: tuple[tuple[str, int], ...]  # variables, and the segments that they stand for
    rest: tuple[str, int] | None  # the variable that stands for all segments from this one on


class _Node:
    """One segment of a path: the segments that may follow, and the routes that end here."""

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.ends: list[_Entry] = []
        self.takes_rest: list[_Entry] = []


class RouteTable:
    """All routes of the application; routes that are added to the application later are not reachable."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self.routes = [route for route in routes if isinstance(route, Route | WebSocketRoute)]
        self._root = _Node()
        self._literal: dict[str, Sequence[_Entry]] = {}  # by whole paths without variables
        for order, route in enumerate(self.routes):
            self._add(order, route)
        for path in self._literal:
            self._literal[path] = self._candidates(path.split("/"))

    def resolve(self, scope: Scope) -> Access:
        """Find the route, note it in the scope for the application, and return the access that it declares.

        Where only the method is wrong, the scope gets a route that answers so.
        """
        path: str = scope["path"]
        entries = self._literal.get(path)
        if entries is None:
            entries = self._candidates(path.split("/"))
        other: _Entry | None = None
        for entry in entries:
            if entry.type == scope["type"]:
                if entry.methods is None or scope["method"] in entry.methods:
                    _note(entry, path, scope)
                    return entry.access
                other = other or entry
        if other is None:
            return UNKNOWN
        _note(other, path, scope)
        return NOTHING_SECRET if other.access.scope == "public" else UNKNOWN

    def knows(self, path: str) -> bool:
        return any(entry.type == "http" for entry in self._candidates(path.split("/")))

    def _add(self, order: int, route: AnyRoute) -> None:
        names: list[tuple[str, int]] = []
        rest: tuple[str, int] | None = None
        node = self._root
        for place, segment in enumerate(route.path.split("/")[1:], 1):
            assert rest is None, f"{route.path}: nothing can follow a variable that takes the rest of the path"
            if not segment.startswith("{"):
                node = node.literal.setdefault(segment, _Node())
                continue
            name, _, kind = segment[1:-1].partition(":")
            if kind:
                rest = name, place
            else:
                names.append((name, place))
                node.variable = node = node.variable or _Node()
        is_http = isinstance(route, Route)
        methods = frozenset(route.methods) if isinstance(route, Route) and route.methods else None
        type_ = "http" if is_http else "websocket"
        entry = _Entry(order, route, access_of(route), type_, methods, tuple(names), rest)
        (node.ends if rest is None else node.takes_rest).append(entry)
        if not names and rest is None:
            self._literal[route.path] = ()

    def _candidates(self, segments: list[str]) -> Sequence[_Entry]:
        """The routes that fit the path, in the order in which they were added."""
        found: list[_Entry] = []
        nodes = [self._root]
        for segment in segments[1:]:
            following = []
            for node in nodes:
                if node.takes_rest:
                    found += node.takes_rest
                child = node.literal.get(segment)
                if child is not None:
                    following.append(child)
                if node.variable is not None and segment:
                    following.append(node.variable)
            if not following:
                nodes = following
                break
            nodes = following
        for node in nodes:
            found += node.ends
        if len(found) > 1:
            found.sort(key=lambda entry: entry.order)
        return found


def _note(entry: _Entry, path: str, scope: Scope) -> None:
    parameters: dict[str, str] = {}
    if entry.names or entry.rest is not None:
        segments = path.split("/")
        for name, place in entry.names:
            parameters[name] = segments[place]
        if entry.rest is not None:
            parameters[entry.rest[0]] = "/".join(segments[entry.rest[1] :])
    scope["route"], scope["endpoint"], scope["path_params"] = entry.route, entry.route.endpoint, parameters


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
        other = path.rstrip("/") if path.endswith("/") else f"{path}/"
        return str(URL(scope={**scope, "path": other})) if other and self._table.knows(other) else None


def seal(app: FastAPI) -> RouteTable:
    """Make the table of all routes of an application, and have the application run no route but by way of it."""
    table = RouteTable(app.router.routes)
    app.router.routes.insert(0, Dispatch(table))
    return table


async def _refuse_socket(_: Socket) -> None:
    raise Gone("There is no WebSocket at this address.", hint="/docs lists the addresses of this server.")
