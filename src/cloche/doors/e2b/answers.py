"""Answers as E2B's clients read them, straight to the connection: these requests are many, and small."""

from __future__ import annotations

import math
from json import loads
from typing import Any

from starlette.types import Receive, Scope, Send

from cloche.doors.http.problems import RequestRefused
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun, Refused
from cloche.json_text import to_json
from cloche.policy.refusals import Busy, Forbidden, TooMany, Unauthorized

JSON = b"application/json"
_FULL = (28, 122)  # ENOSPC, EDQUOT
_STATUS: tuple[tuple[type[ClocheError], int], ...] = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooMany, 429),
    (Busy, 503),
    (InvalidRun, 400),
    (FileMissing, 404),
    (FileProblem, 400),
    (Gone, 404),
    (Refused, 409),
)


class Refusal(Exception):
    """A request that is answered with an error; `more` is told beside its message."""

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
    """The client has gone before its request had come."""


def refusal(problem: ClocheError) -> Refusal:
    """What went wrong, with the status that the clients have an exception for."""
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
    send: Send, status: int, told: Any = None, headers: tuple[tuple[bytes, bytes], ...] = (), kind: bytes = JSON
) -> None:
    """Send one whole answer: JSON, or bytes as they are, or nothing."""
    body = told if isinstance(told, bytes) else b"" if status == 204 else to_json(told).encode()
    size = () if status == 204 else ((b"content-type", kind), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*size, *headers]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, problem: Refusal) -> None:
    """Send an error, in the form that all of them have."""
    told = {**problem.more, "message": problem.message, "code": problem.status}
    await answer(send, problem.status, told, problem.headers)


def header(scope: Scope, name: bytes) -> str:
    """A header of a request, or nothing."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


async def body(receive: Receive) -> bytes:
    """The whole body of a request."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        return whole
    parts = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise BrokenOff


async def json_body(receive: Receive) -> dict[str, Any]:
    """The same as the JSON object that it is; nothing at all is an empty one."""
    data = await body(receive)
    try:
        told = loads(data) if data else {}
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not JSON.") from None
    if not isinstance(told, dict):
        raise Refusal(400, "The request is not a JSON object.")
    return told


def line(told: dict[str, Any]) -> bytes:
    """One line of a stream: ASCII alone, since clients cut their lines and characters carelessly."""
    return to_json(told).encode() + b"\n"


__all__ = ["BrokenOff", "Refusal", "answer", "body", "header", "json_body", "line", "refusal", "refuse"]
