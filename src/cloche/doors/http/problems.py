"""Errors as HTTP tells them: one shape, the right status, and what to do."""

from __future__ import annotations

import errno
import logging
import math
from json import dumps
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from cloche.doors.http.answers import ProblemAnswer
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
from cloche.policy.refusals import Busy, Ended, Forbidden, TooMany, Unauthorized

log = logging.getLogger("cloche.http")

_AWAY_S = "5"  # when to try again, while what happens cannot be recorded
_FULL = {errno.ENOSPC, errno.EDQUOT}
_STATUS: tuple[tuple[type[ClocheError], int], ...] = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooMany, 429),
    (Busy, 503),
    (Unavailable, 503),
    (Ended, 410),
    (FileMissing, 404),
    (Gone, 404),
    (FileProblem, 409),
    (InvalidRun, 400),
    (Refused, 409),
    (SandboxFailed, 503),
    (Misconfigured, 503),
)
# What any request may meet; `responses=` of every route.
ALWAYS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemAnswer, "description": "what was wrong with the request"},
    422: {"model": ProblemAnswer, "description": "the request is not of the form that is documented here"},
    "5XX": {"model": ProblemAnswer, "description": "not now: busy, or not installed"},
}


class Unwelcome(ClocheError):
    """A request that is refused at the door."""

    def __init__(self, status: int, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status, self.code = status, kind


class Unsatisfiable(Unwelcome):
    """A range that a file does not have."""

    def __init__(self, size: int) -> None:
        super().__init__(416, "invalid", f"The file has {size} bytes.", "Ask for a range within it.")
        self.size = size


def answer(problem: ClocheError) -> Response:
    """An error as a response."""
    status = 500
    headers: dict[str, str] = {}
    details: dict[str, Any] = {}
    for kind, number in _STATUS:
        if isinstance(problem, kind):
            status = number
            break
    if isinstance(problem, Unwelcome):
        status = problem.status
    if isinstance(problem, FileProblem):
        details["errno"] = problem.errno
        status = 507 if problem.errno in _FULL else status
    if isinstance(problem, TooMany | Busy):
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
        details["retry_after"] = problem.retry_after
    if isinstance(problem, Unavailable):
        headers["Retry-After"] = _AWAY_S
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(problem, Unsatisfiable):
        headers["Content-Range"] = f"bytes */{problem.size}"
    kind_told = "limit" if isinstance(problem, TooMany) else problem.code
    return told(status, kind_told, problem.message, problem.hint, details, headers)


def told(
    status: int,
    kind: str,
    message: str,
    hint: str = "",
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """The one shape of all errors."""
    error = {"kind": kind, "message": message, "hint": hint, "details": details or {}}
    # Names of files that are not UTF-8 are lone surrogates, which JSON can tell as escapes only.
    return Response(dumps({"error": error}).encode(), status, headers, media_type="application/json")


_SEND_JSON = "Send one JSON object, in UTF-8."
_SAY_JSON = "Send it with the header `Content-Type: application/json` (curl: --json instead of -d)."
_KINDS = {401: "unauthorized", 403: "forbidden", 404: "gone", 405: "invalid", 413: "invalid", 415: "invalid"}


async def unexpected(_: Request, problem: Exception) -> Response:
    """A failure of ours."""
    log.error("a request failed by our own fault", exc_info=problem)
    return told(500, "failed", "Something went wrong on our side.", "Try again; the server's log says more.")


def install(app: FastAPI) -> None:
    """Have every failure told in that shape."""

    async def ours(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, ClocheError)
        return answer(problem)

    async def invalid(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        found = problem.errors()
        kind = found[0]["type"] if found else ""
        if kind == "model_attributes_type" and "json" not in request.headers.get("content-type", "").lower():
            return told(415, "invalid", "The body does not say that it is JSON.", _SAY_JSON)
        if kind == "json_invalid":
            return told(422, "invalid", f"The body is not JSON: {found[0]['ctx']['error']}.", _SEND_JSON)
        where = ".".join(str(part) for part in found[0]["loc"]) if found else "the request"
        message = f"{where}: {found[0]['msg']}" if found else "The request is malformed."
        details = {"problems": [{"where": list(map(str, one["loc"])), "what": one["msg"]} for one in found[:20]]}
        return told(422, "invalid", message, "See /openapi.json for what is expected.", details)

    async def by_status(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        if isinstance(problem.__cause__, ClocheError):  # met while the body was read
            return answer(problem.__cause__)
        if problem.status_code == 400:  # only ever raised for bodies
            return told(400, "invalid", "The body is not JSON that can be read.", _SEND_JSON)
        message = {404: "There is nothing at this address.", 405: "This address does not take this method."}
        text = message.get(problem.status_code, str(problem.detail))
        kind = _KINDS.get(problem.status_code, "invalid" if problem.status_code < 500 else "failed")
        headers = dict(problem.headers) if problem.headers else None
        return told(problem.status_code, kind, text, "See /docs for what there is.", None, headers)

    async def left(_: Request, __: Exception) -> Response:
        return told(400, "invalid", "The request breaks off in the middle.", "Send it again.")

    app.add_exception_handler(ClocheError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_status)
    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(Exception, unexpected)
