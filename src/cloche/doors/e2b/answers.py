"""Answers in the form that E2B's clients read.

They bypass Starlette's response classes, since these requests are many and small.
"""

from __future__ import annotations

import math
from typing import Any

from starlette.types import Receive, Scope, Send

from cloche.doors.faults import for_client
from cloche.doors.http.problems import RequestRefused
from cloche.doors.json_input import joined, read_json
from cloche.errors import (
    ClocheError,
    FileMissing,
    FileProblem,
    Gone,
    InvalidRun,
    Misconfigured,
    Refused,
    SandboxFailed,
    Unavailable,
)
from cloche.json_text import to_json
from cloche.policy.refusals import Busy, Forbidden, TooMany, Unauthorized

JSON = b"application/json"
_FULL = (28, 122)  # ENOSPC, EDQUOT
_STATUS: tuple[tuple[type[ClocheError], int], ...] = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooMany, 429),
    (Busy, 503),
    (Unavailable, 503),
    (SandboxFailed, 503),
    (Misconfigured, 503),
    (InvalidRun, 400),
    (FileMissing, 404),
    (FileProblem, 400),
    (Gone, 404),
    (Refused, 409),
)


class Refusal(Exception):
    """Ends a request with an error answer; `more` holds further fields of the answer."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers, self.more = status, message, headers, more or {}


class BrokenOff(Exception):
    """The client left before it had sent the whole request, or the stream must end without a result."""


def refusal(problem: ClocheError) -> Refusal:
    """Translate a problem to the status for which the clients have an exception."""
    problem = for_client(problem, "e2b")
    status = next((number for kind, number in _STATUS if isinstance(problem, kind)), 500)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(problem, RequestRefused):
        status = problem.status
    if isinstance(problem, FileProblem) and problem.errno in _FULL:
        status = 507
    if isinstance(problem, TooMany | Busy):
        headers = ((b"retry-after", str(max(1, math.ceil(problem.retry_after))).encode()),)
    text = f"{problem.message} {problem.hint}".strip() if status != 404 else problem.message
    return Refusal(status, text, headers=headers)


async def answer(
    send: Send, status: int, payload: Any = None, headers: tuple[tuple[bytes, bytes], ...] = (), kind: bytes = JSON
) -> None:
    """Send a complete answer: bytes unchanged, other payloads as JSON, and no body with status 204."""
    body = payload if isinstance(payload, bytes) else b"" if status == 204 else to_json(payload).encode()
    size = () if status == 204 else ((b"content-type", kind), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*size, *headers]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, problem: Refusal) -> None:
    payload = {**problem.more, "message": problem.message, "code": problem.status}
    await answer(send, problem.status, payload, problem.headers)


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request, or an empty text."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


async def body(receive: Receive) -> bytes:
    """Receive the whole body of a request."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        return whole
    parts = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return await joined(parts)
        message = await receive()
    raise BrokenOff


async def json_body(receive: Receive) -> dict[str, Any]:
    """Receive a body that is a JSON object; an empty body is an empty object."""
    data = await body(receive)
    try:
        fields = await read_json(data) if data else {}
    except ValueError:
        raise Refusal(400, "The request is not JSON.") from None
    if not isinstance(fields, dict):
        raise Refusal(400, "The request is not a JSON object.")
    return fields


def line(fields: dict[str, Any]) -> bytes:
    """Encode one line of a stream in ASCII, since clients may split lines within a character."""
    return to_json(fields).encode() + b"\n"


__all__ = ["BrokenOff", "Refusal", "answer", "body", "header", "json_body", "line", "refusal", "refuse"]
