"""Turns errors into HTTP responses: one JSON shape, the right status, and a hint on what to do."""

from __future__ import annotations

import errno
import math
from json import dumps
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from cloche.doors import faults
from cloche.doors.faults import for_client
from cloche.doors.http.answers import ProblemAnswer
from cloche.doors.page import plain
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

_AWAY_S = "5"  # when to try again while the server cannot record what happens
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
# The errors that every route may answer with, for `responses=`; routing/description.py adds the usual ones by status.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemAnswer, "description": "The request was refused; `error.message` says why."},
    "5XX": {"model": ProblemAnswer, "description": "The server is busy, lacks something, or failed."},
}


class RequestRefused(ClocheError):
    """A refusal that makes sense in HTTP only, with its status."""

    def __init__(self, status: int, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status, self.code = status, kind


class RangeNotSatisfiable(RequestRefused):
    """The client asked for a range of a file that the file does not have."""

    def __init__(self, size: int) -> None:
        super().__init__(416, "invalid", f"The file has {size} bytes.", "Ask for a range within it.")
        self.size = size


def problem_response(problem: ClocheError) -> Response:
    problem = for_client(problem)
    status = 500
    headers: dict[str, str] = {}
    details: dict[str, Any] = {}
    for kind, number in _STATUS:
        if isinstance(problem, kind):
            status = number
            break
    if isinstance(problem, RequestRefused):
        status = problem.status
    if isinstance(problem, FileProblem):
        details["errno"] = problem.errno
        status = 507 if problem.errno in _FULL else 412 if problem.errno == errno.ESTALE else status
    if isinstance(problem, Unauthorized):
        details["sent"] = problem.sent
    if isinstance(problem, TooMany | Busy):
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
        details["retry_after"] = problem.retry_after
    if isinstance(problem, Unavailable):
        headers["Retry-After"] = _AWAY_S
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(problem, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{problem.size}"
    code = "limit" if isinstance(problem, TooMany) else problem.code
    return error_response(status, code, problem.message, problem.hint, details, headers)


def refusal(scope: Scope, problem: ClocheError) -> Response:
    """The response to a problem: for a person's browser a page that contains nothing of the request, else JSON."""
    return _for_reader(scope, problem_response(problem))


def _for_reader(scope: Scope, response: Response) -> Response:
    if not plain.wants_page(scope, Headers(scope=scope)):
        return response
    kept = {name: value for name, value in response.headers.items() if name not in ("content-type", "content-length")}
    return plain.notice(response.status_code, kept)


def error_response(
    status: int,
    kind: str,
    message: str,
    hint: str = "",
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """A response in the one shape that all errors have."""
    error = {"kind": kind, "message": message, "hint": hint, "details": details or {}}
    # A file name that is not UTF-8 contains lone surrogates, which only an escape can carry in JSON.
    return Response(dumps({"error": error}).encode(), status, headers, media_type="application/json")


_SEND_JSON = "Send one JSON object, in UTF-8."
_SAY_JSON = "Send it with the header `Content-Type: application/json` (curl: --json instead of -d)."
_KINDS = {401: "unauthorized", 403: "forbidden", 404: "gone", 405: "invalid", 413: "invalid", 415: "invalid"}


async def unexpected(_: Request, problem: Exception) -> Response:
    """The response to an exception that nobody expected."""
    return problem_response(faults.unexpected(problem))


def install(app: FastAPI) -> None:
    """Have the application answer every exception in this shape."""

    async def ours(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, ClocheError)
        return refusal(request.scope, problem)

    async def invalid(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        found = problem.errors()
        kind = found[0]["type"] if found else ""
        if kind == "model_attributes_type" and "json" not in request.headers.get("content-type", "").lower():
            return error_response(415, "invalid", "The request does not declare its body as JSON.", _SAY_JSON)
        if kind == "json_invalid":
            return error_response(422, "invalid", f"The body is not JSON: {found[0]['ctx']['error']}.", _SEND_JSON)
        where = ".".join(str(part) for part in found[0]["loc"]) if found else "the request"
        message = f"{where}: {found[0]['msg']}" if found else "The request is malformed."
        details = {"problems": [{"where": list(map(str, one["loc"])), "what": one["msg"]} for one in found[:20]]}
        return error_response(422, "invalid", message, "/openapi.json describes the form of every request.", details)

    async def by_status(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        if isinstance(problem.__cause__, ClocheError):  # raised while the body was read
            return problem_response(problem.__cause__)
        if problem.status_code == 400:  # only ever raised for bodies
            return error_response(400, "invalid", "The body is not valid JSON.", _SEND_JSON)
        message = {404: "There is nothing at this address.", 405: "This address does not take this method."}
        text = message.get(problem.status_code, str(problem.detail))
        kind = _KINDS.get(problem.status_code, "invalid" if problem.status_code < 500 else "failed")
        headers = dict(problem.headers) if problem.headers else None
        answer = error_response(problem.status_code, kind, text, "/docs lists all addresses.", None, headers)
        return _for_reader(request.scope, answer)

    async def left(_: Request, __: Exception) -> Response:
        return error_response(400, "invalid", "The request ended before its body was complete.", "Send it again.")

    app.add_exception_handler(ClocheError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_status)
    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(Exception, unexpected)
