"""What a route needs of its request: the service, the caller, the sandbox that the address names, a page of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from fastapi import Depends, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from cloche.doors.gate import caller_of
from cloche.doors.http.problems import Ended
from cloche.errors import Gone
from cloche.json_text import to_json
from cloche.service.held import Held
from cloche.service.keys import Caller
from cloche.service.service import Service


def visit(request: HTTPConnection) -> tuple[Service, Caller]:
    """Who came, and to whom."""
    return request.app.state.service, caller_of(request.scope)


# These are coroutines although they wait for nothing: FastAPI would call plain functions in a thread.


async def _service(request: HTTPConnection) -> Service:
    service: Service = request.app.state.service  # not `visit`: who asks whether we are ready may be nobody
    return service


async def _caller(request: HTTPConnection) -> Caller:
    return visit(request)[1]


async def held_of(request: HTTPConnection, sandbox_id: str) -> Held:
    """The caller's sandbox of this id."""
    service, caller = visit(request)
    try:
        return service.sandboxes.find(caller, sandbox_id)
    except Gone:
        record = await service.sandboxes.record(caller, sandbox_id)  # raises the same when it never was
        raise Ended(f"The sandbox has ended: {record.reason or record.state}.", hint="Make a new one.") from None


TheService = Annotated[Service, Depends(_service)]
TheCaller = Annotated[Caller, Depends(_caller)]
TheSandbox = Annotated[Held, Depends(held_of)]
Limit = Annotated[int, Query(ge=1, le=1000, description="items on a page")]
After = Annotated[str | None, Query(description="`next` of the page before", max_length=500)]


class Json(Response):
    """JSON as the library writes it: names of files that are not UTF-8 as lone surrogates."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return to_json(content).encode()


def page(items: Sequence[Any], limit: int, after: str | None) -> dict[str, Any]:
    """A page of a list that is at hand as a whole; the cursor is a position in it."""
    start = int(after) if after is not None and after.isdecimal() and len(after) < 10 else 0
    following = start + limit
    return {"items": list(items[start:following]), "next": str(following) if following < len(items) else None}


def path_in(request: Request, prefix: str) -> str:
    """The path in the sandbox that an address names, with whatever bytes it has."""
    raw = request.scope["raw_path"].partition(b"?")[0]
    rest = raw.partition(prefix.encode())[2]
    return unquote_to_bytes(rest).decode("utf-8", "surrogateescape")


def path_asked(request: Request, default: str = ".") -> str:
    """The same from the query: `?path=`."""
    query = request.scope["query_string"].decode("latin-1")
    for name, value in parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape"):
        if name == "path":
            return value or default
    return default
