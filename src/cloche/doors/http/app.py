"""The HTTP application: routes, errors, description."""

from __future__ import annotations

from fastapi import FastAPI

from cloche import __version__
from cloche.doors import live, terminal, websocket
from cloche.doors.http import (
    commands,
    comparison,
    containers,
    environments,
    files,
    network,
    packages,
    problems,
    rates,
    runs,
    sandboxes,
    sessions,
    shares,
    system,
    tables,
    templates,
    workspaces,
)
from cloche.doors.http import ports as ports_http
from cloche.doors.mcp.door import PATH, McpDoor
from cloche.doors.metrics import Metrics
from cloche.doors.page import files as page_files
from cloche.doors.ports import PortDoor
from cloche.doors.routing.description import DescribedApplication
from cloche.doors.routing.routes import ApplicationRoute
from cloche.service.service import Service

_ABOUT = """Runs code under glass: in sandboxes from which nothing gets out. Requests need an API key, as
`Authorization: Bearer KEY` or `X-API-Key: KEY`. Errors have one shape: `{"error": {"kind", "message", "hint",
"details"}}`. A program that fails is not an error of the API: the status is 200, and the result says why."""


def build(service: Service, metrics: Metrics, ports: PortDoor, mcp: McpDoor) -> FastAPI:
    """The application for one service."""
    app = DescribedApplication(
        title="Cloche",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # system.py has the route: FastAPI's own would declare no access
    )
    app.state.service, app.state.metrics, app.state.ports = service, metrics, ports
    problems.install(app)
    for part in (
        runs,
        sessions,
        system,
        sandboxes,
        network,
        packages,
        environments,
        files,
        commands,
        containers,
        workspaces,
        templates,
        comparison,
        tables,
        shares,
        rates,
        ports_http,
        page_files,
    ):
        part.operations.install(app)
    app.router.routes.extend((*websocket.routes, *terminal.routes, *live.routes, *ports_http.routes))
    app.router.routes.append(ApplicationRoute(PATH, mcp, scope="run", body="json", name="mcp", stream="reader"))
    return app
