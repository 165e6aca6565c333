"""The two addresses that are called most, without the framework's machinery: it takes as long as all the rest.

Whatever is not plain (another content type, a query, a body that is not what it should be) goes the usual way, so that
there is one place that says what is wrong with it.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from cloche.doors.http import runs, sessions
from cloche.doors.http.bodies import CellBody, RunBody
from cloche.doors.http.problems import answer, unexpected
from cloche.errors import ClocheError

log = logging.getLogger("cloche.http")

_RUN = "/v1/run"
_PREFIX, _SUFFIX = "/v1/sandboxes/", "/run"


class _Route:
    """What metrics count a request as."""

    def __init__(self, path: str) -> None:
        self.path = path


_PROGRAM, _CELL = _Route(_RUN), _Route("/v1/sandboxes/{sandbox_id}/run")


class Quick:
    """In front of the application: runs its two busiest routes itself."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        sandbox = _sandbox(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
        if sandbox is None or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except ClocheError as problem:
            await answer(problem)(scope, receive, send)
            return
        if body is None:
            return  # the client has left
        form: type[RunBody | CellBody] = CellBody if sandbox else RunBody
        try:
            asked = form.model_validate(from_json(body, cache_strings="keys"))
        except (ValueError, RecursionError, ValidationError):
            await self._app(scope, _once_more(body, receive), send)
            return
        scope["app"] = self._app
        scope["route"] = _CELL if sandbox else _PROGRAM
        response = await self._answer(Request(scope, receive), sandbox, asked)
        await response(scope, receive, send)

    async def _answer(self, request: Request, sandbox: str, asked: Any) -> Response:
        try:
            if sandbox:
                return await sessions.run(request, sandbox, asked)
            return await runs.run(request, asked)
        except ClocheError as problem:
            return answer(problem)
        except Exception as problem:
            return await unexpected(request, problem)


def _sandbox(scope: Scope) -> str | None:
    """The sandbox that is to run something, nothing for one of its own; None when it is about something else."""
    path: str = scope["path"]
    if path == _RUN:
        return ""
    if not path.startswith(_PREFIX) or not path.endswith(_SUFFIX):
        return None
    name = path[len(_PREFIX) : -len(_SUFFIX)]
    return name if name and "/" not in name else None


def _is_plain(scope: Scope) -> bool:
    if scope["query_string"]:
        return False
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    return len(types) == 1 and types[0].partition(b";")[0].strip().lower() == b"application/json"


async def _read(receive: Receive) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _once_more(body: bytes, receive: Receive) -> Receive:
    """The same request, for somebody else to read."""
    first = True

    async def again() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
