"""Runs the two busiest routes without FastAPI's machinery, which takes as long as everything else in the request.

A request that is not plain (another content type, a query, an invalid body) takes the usual path, so that only one
place explains to clients what is wrong with a request.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from cloche.doors.http import runs, sessions
from cloche.doors.http.bodies import CellBody, RunBody
from cloche.doors.http.problems import problem_response, unexpected
from cloche.doors.json_input import LARGE_JSON, joined, parsed_json
from cloche.errors import ClocheError
from cloche.io.tasks import off_loop


class FastPath:
    """Stands between the gate, which has found the route, and the application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = _form(scope)
        if form is None or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive)
            if body is None:
                return  # the client has left
            checked = await _checked(form, body)
        except ClocheError as problem:
            await problem_response(problem)(scope, receive, send)
            return
        if checked is None:
            await self._app(scope, _replayed(body, receive), send)
            return
        scope["app"] = self._app
        response = await self._respond(Request(scope, receive), checked)
        await response(scope, receive, send)

    async def _respond(self, request: Request, body: Any) -> Response:
        try:
            if isinstance(body, CellBody):
                return await sessions.run(request, request.path_params["sandbox_id"], body)
            return await runs.run(request, body)
        except ClocheError as problem:
            return problem_response(problem)
        except Exception as problem:
            return await unexpected(request, problem)


def _form(scope: Scope) -> type[RunBody | CellBody] | None:
    """The form of the request's body, if its route is one of the two."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    endpoint = scope.get("endpoint")
    return RunBody if endpoint is runs.run else CellBody if endpoint is sessions.run else None


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
            return await joined(parts)


async def _checked(form: type[RunBody | CellBody], body: bytes) -> RunBody | CellBody | None:
    """The body in its form; None if it has another, or is not JSON."""
    try:
        return await off_loop(len(body), lambda: form.model_validate(parsed_json(body)), LARGE_JSON)
    except (ValueError, ValidationError):
        return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that begins with the body that was read already."""
    first = True

    async def again() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
