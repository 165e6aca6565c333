"""The HTTP application: routes, errors, description."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Route, WebSocketRoute

from cloche import __version__
from cloche.doors import live, terminal, websocket
from cloche.doors.http import (
    commands,
    comparing,
    containers,
    files,
    problems,
    rates,
    runs,
    sandboxes,
    sessions,
    shares,
    system,
    templates,
    workspaces,
)
from cloche.doors.http import ports as ports_http
from cloche.doors.mcp.door import PATH, McpDoor
from cloche.doors.metrics import Metrics
from cloche.doors.page import files as page_files
from cloche.doors.ports import Ports
from cloche.doors.sockets import Door, Socket
from cloche.errors import Gone
from cloche.service.service import Service

_ABOUT = """Runs code under glass. Every request needs a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`.
Errors have one shape: `{"error": {"kind", "message", "hint", "details"}}`."""


async def _nowhere(_: Socket) -> None:
    raise Gone("There is no WebSocket at this address.", hint="See /docs for what there is.")


def build(service: Service, metrics: Metrics, ports: Ports, mcp: McpDoor) -> FastAPI:
    """The application for one service."""
    app = FastAPI(
        title="Cloche",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.service, app.state.metrics, app.state.ports = service, metrics, ports
    problems.install(app)
    for part in (
        runs,
        sessions,
        system,
        sandboxes,
        files,
        commands,
        containers,
        workspaces,
        templates,
        comparing,
        shares,
        rates,
        ports_http,
        page_files,
    ):  # in the order in which addresses are looked up: what is called most first
        app.include_router(part.router)
    app.router.routes.extend((*websocket.routes, *terminal.routes, *live.routes, *ports_http.routes))
    app.router.routes.append(Route(PATH, mcp, include_in_schema=False))
    app.router.routes.append(WebSocketRoute("/{path:file}", Door(_nowhere)))
    return app
