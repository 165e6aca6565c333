"""The parts of a request that many routes need: service, caller, ids in the address, pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from json import dumps
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from fastapi import Depends, Path, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from cloche.doors.gate.identity import caller_of
from cloche.io.tasks import LARGE, off_loop
from cloche.json_text import long_json, to_json
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.service.event_log import characters_of
from cloche.service.service import Service


def service_and_caller(request: HTTPConnection) -> tuple[Service, Caller]:
    """The service and the caller of a request."""
    return request.app.state.service, caller_of(request.scope)


# These are coroutines although they await nothing: FastAPI would call plain functions in a thread.


async def _service(request: HTTPConnection) -> Service:
    service: Service = request.app.state.service  # not `visit`: /v1/ready has no caller
    return service


async def _caller(request: HTTPConnection) -> Caller:
    return service_and_caller(request)[1]


TheService = Annotated[Service, Depends(_service)]
TheCaller = Annotated[Caller, Depends(_caller)]
SandboxId = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000, description="items on a page")]
After = Annotated[str | None, Query(description="`next` of the page before", max_length=500)]


class Json(Response):
    """JSON in which the bytes of a file name that are not UTF-8 are lone surrogates."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content).encode()


async def long_answer(
    result: Result, fields: Callable[[], dict[str, Any]], status: int = 200, size: int | None = None
) -> Response:
    """An answer that contains a result; long output is encoded in a thread.  `size` replaces the estimate."""
    size = characters_of(result, LARGE) if size is None else size
    body = await off_loop(size, lambda: (long_json if size > LARGE else to_json)(fields()).encode())
    return Response(body, status, media_type=Json.media_type)


def digest_of(method: str, path: str, body: Any) -> str:
    """A digest of all that a request asks for, whatever its spelling."""
    return sha256(dumps([method, path, body], sort_keys=True).encode()).hexdigest()


def page(items: Sequence[Any], limit: int, after: str | None) -> dict[str, Any]:
    """A page of a complete list; the cursor is a position in it."""
    start = int(after) if after is not None and after.isdecimal() and len(after) < 10 else 0
    following = start + limit
    return {"items": list(items[start:following]), "next": str(following) if following < len(items) else None}


def path_in(request: Request, prefix: str) -> str:
    """The path in the sandbox that an address names; its bytes need not be UTF-8."""
    raw = request.scope["raw_path"].partition(b"?")[0]
    rest = raw.partition(prefix.encode())[2]
    return unquote_to_bytes(rest).decode("utf-8", "surrogateescape")


def path_in_query(request: Request, default: str = ".") -> str:
    """The path in the sandbox from the query: `?path=`."""
    query = request.scope["query_string"].decode("latin-1")
    for name, value in parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape"):
        if name == "path":
            return value or default
    return default
