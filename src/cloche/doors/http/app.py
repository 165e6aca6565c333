"""The HTTP application: routes, errors, description."""

from __future__ import annotations

from fastapi import FastAPI

from cloche import __version__
from cloche.doors.http import commands, files, problems, runs, sandboxes, sessions, system
from cloche.doors.metrics import Metrics
from cloche.doors.ports import Ports
from cloche.service.service import Service

_ABOUT = """Runs code under glass. Every request needs a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`.
Errors have one shape: `{"error": {"kind", "message", "hint", "details"}}`."""


def build(service: Service, metrics: Metrics, ports: Ports) -> FastAPI:
    """The application for one service."""
    app = FastAPI(
        title="Cloche", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, openapi_url="/openapi.json"
    )
    app.state.service, app.state.metrics, app.state.ports = service, metrics, ports
    problems.install(app)
    for part in (system, runs, sandboxes, sessions, files, commands):
        app.include_router(part.router)
    return app


