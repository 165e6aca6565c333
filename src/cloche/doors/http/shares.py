"""`/v1/shares` manages an owner's shares; `/shared/…` shows a share, read-only, to everybody with the link."""

from __future__ import annotations

import re
from asyncio import to_thread
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import ErrorAnswer, Page
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, page
from cloche.doors.http.problems import ERROR_RESPONSES, RequestRefused
from cloche.doors.page import files as page_files
from cloche.doors.routing.routes import Operations
from cloche.doors.sharing import SHARED
from cloche.errors import Gone
from cloche.json_text import to_json
from cloche.policy.caller import Caller
from cloche.service.shares import Share

operations = Operations(responses=ERROR_RESPONSES, tag="shares")

Token = Annotated[str, Path(max_length=200)]
_NAME = re.compile(r"[\w.-]+(?::\d+)?", re.ASCII)
# As strict as the playground's policy.  The page can request only the shared document, so it cannot run anything.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src {place}; frame-src 'self'; media-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class SharedFile(BaseModel):
    """A file at the time of sharing."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(max_length=1000)
    text: str


class SharedPiece(BaseModel):
    """A piece of a run's output."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["stdout", "stderr", "display", "error"]
    text: str = ""
    mime: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    error: ErrorAnswer | None = None


class SharedRun(BaseModel):
    """A run and its output, in order."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(max_length=500)
    language: str = Field(max_length=100)
    code: str = ""
    time: float
    duration: float | None = None
    memory_peak: int | None = None
    exit_code: int | None = None
    undone: bool = False
    pieces: list[SharedPiece]


class ShareBody(BaseModel):
    """Code and output to share."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=200)
    files: list[SharedFile] = Field(default=[], max_length=500)
    runs: list[SharedRun] = Field(default=[], max_length=1000)


class ShareAnswer(BaseModel):
    """A share; `path` is its link, relative to the server's address, for keys that may share."""

    id: str
    title: str
    created: float
    bytes: int
    path: str | None


class SharedDocument(ShareBody):
    """The shared code and output."""

    created: float


@operations.post(
    "/v1/shares", scope="run", name="create", body="json", status_code=201, responses={201: {"model": ShareAnswer}}
)
async def share(body: ShareBody, service: TheService, caller: TheCaller) -> Response:
    """Share a copy of code and its output.  Everybody with the link can read it, and do nothing else."""
    document = await to_thread(lambda: to_json(body.model_dump()).encode())
    made = await service.shares.create(caller, body.title, document)
    return Json(_json(made, caller), 201)


@operations.get("/v1/shares", scope="read", name="list", responses={200: {"model": Page[ShareAnswer]}})
async def listed(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """List the caller's shares, newest first."""
    return Json(page([_json(one, caller) for one in service.shares.list(caller)], limit, after))


@operations.delete("/v1/shares/{share_id}", scope="run", body="none", status_code=204)
async def revoke(share_id: Token, service: TheService, caller: TheCaller) -> Response:
    """Revoke a share at once.  Its link stops working."""
    await service.shares.revoke(caller, share_id)
    return Response(status_code=204)


@operations.get(SHARED + "{token}", scope="share", linked=True, include_in_schema=False)
@operations.head(SHARED + "{token}", scope="share")
async def shown(request: Request, token: Token, service: TheService) -> Response:
    """Send the page that shows a share; the page itself reports a missing share."""
    try:
        service.shares.by_token(token)
        status = 200
    except Gone:
        status = 404
    host = request.headers.get("host", "")
    place = f"{host}{SHARED}" if _NAME.fullmatch(host) else "'self'"
    try:
        contents = (page_files.BUILT / "shared.html").read_bytes()
    except OSError:
        raise RequestRefused(503, "unavailable", "The page was not built.", "Build it with `make page`.") from None
    headers = {"Content-Security-Policy": _POLICY.format(place=place), "X-Robots-Tag": "noindex"}
    return Response(contents, status, headers, media_type="text/html")


@operations.get(
    SHARED + "{token}/document", scope="share", name="get_document", responses={200: {"model": SharedDocument}}
)
@operations.head(SHARED + "{token}/document", scope="share")
async def document(token: Token, service: TheService) -> Response:
    """Get the shared code and output.  The token in the link is enough."""
    found = service.shares.by_token(token)
    contents = await service.shares.document(found)
    answer = b'{"created":%r,' % found.created + contents.removeprefix(b"{")
    return Response(answer, headers={"X-Robots-Tag": "noindex"}, media_type="application/json")


def _json(share: Share, caller: Caller) -> dict[str, Any]:
    # The link is a public address, so a key that may only read does not get it.
    path = f"{SHARED}{share.token}" if caller.may("run") else None
    fields = {name: getattr(share, name) for name in ShareAnswer.model_fields if name != "path"}
    return {**fields, "path": path}
