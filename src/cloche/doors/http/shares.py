"""`/v1/shares`: what was shared, for its owner; `/shared/…`: the same for whoever has the link, to look at only."""

from __future__ import annotations

import re
from time import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import ErrorAnswer, Page
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheService, page
from cloche.doors.http.problems import ALWAYS, Unwelcome
from cloche.doors.page import files as page_files
from cloche.doors.sharing import SHARED
from cloche.errors import Gone
from cloche.json_text import to_json
from cloche.service.identity import new_id
from cloche.service.shares import Share
from cloche.store.records import AuditRecord

router = APIRouter(responses=ALWAYS, tags=["shares"])

Token = Annotated[str, Path(max_length=200)]
_NAME = re.compile(r"[\w.-]+(?::\d+)?", re.ASCII)
# As strict as the playground's own, and it can ask for nothing but what is shared: there is no way to run anything.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src {place}; frame-src 'self'; media-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class SharedFile(BaseModel):
    """A file as it was."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(max_length=1000)
    text: str


class SharedPiece(BaseModel):
    """Something that a run showed."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["stdout", "stderr", "display", "error"]
    text: str = ""
    mime: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    error: ErrorAnswer | None = None


class SharedRun(BaseModel):
    """A run and what it showed, in order."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(max_length=500)
    language: str = Field(max_length=100)
    code: str = ""
    time: float
    duration: float | None = None
    memory_peak: int | None = None
    exit_code: int | None = None
    pieces: list[SharedPiece]


class ShareBody(BaseModel):
    """Code and outputs to be frozen."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=200)
    files: list[SharedFile] = Field(default=[], max_length=500)
    runs: list[SharedRun] = Field(default=[], max_length=1000)


class ShareAnswer(BaseModel):
    """Something shared; `path` is its link, below the server's address."""

    id: str
    title: str
    created: float
    bytes: int
    path: str


class SharedDocument(ShareBody):
    """What was shared, as it was."""

    created: float


@router.post("/v1/shares", status_code=201, responses={201: {"model": ShareAnswer}}, response_class=Response)
async def share(body: ShareBody, service: TheService, caller: TheCaller) -> Response:
    """Freeze code and outputs, and have a link to them; whoever has it can look, and nothing else."""
    if service.configuration.sharing == "off":
        raise Unwelcome(403, "forbidden", "Nothing is shared here.", "The operator has switched it off (`sharing`).")
    made = await service.shares.add(caller.owner, body.title, to_json(body.model_dump()).encode())
    _audit(service, caller, "share.create", made.id, {"title": made.title, "bytes": made.bytes})
    return Json(_json(made), 201)


@router.get("/v1/shares", responses={200: {"model": Page[ShareAnswer]}}, response_class=Response)
async def listed(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """What the caller has shared, newest first."""
    return Json(page([_json(one) for one in service.shares.of(caller.owner)], limit, after))


@router.delete("/v1/shares/{share_id}", status_code=204, response_class=Response)
async def revoke(share_id: Token, service: TheService, caller: TheCaller) -> Response:
    """Have its link lead nowhere, at once."""
    await service.shares.revoke(caller.owner, share_id)
    _audit(service, caller, "share.revoke", share_id, {})
    return Response(status_code=204)


@router.get(SHARED + "{token}", include_in_schema=False)
async def shown(request: Request, token: Token, service: TheService) -> Response:
    """The page that shows it; it says itself when there is nothing to show."""
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
        raise Unwelcome(503, "unavailable", "The page was never built.", "Build it with `make page`.") from None
    headers = {"Content-Security-Policy": _POLICY.format(place=place), "X-Robots-Tag": "noindex"}
    return Response(contents, status, headers, media_type="text/html")


@router.get(
    SHARED + "{token}/document", responses={200: {"model": SharedDocument}}, response_class=Response, tags=["shares"]
)
async def document(token: Token, service: TheService) -> Response:
    """What was shared, for whoever has the link."""
    found = service.shares.by_token(token)
    contents = await service.shares.document(found)
    told = b'{"created":%r,' % found.created + contents.removeprefix(b"{")
    return Response(told, headers={"X-Robots-Tag": "noindex"}, media_type="application/json")


def _audit(service: TheService, caller: TheCaller, action: str, target: str, details: dict[str, Any]) -> None:
    service.journal.note(AuditRecord(new_id("audit"), time(), caller.owner, caller.key_id, action, target, details))


def _json(share: Share) -> dict[str, Any]:
    told = {name: getattr(share, name) for name in ShareAnswer.model_fields if name != "path"}
    return {**told, "path": f"{SHARED}{share.token}"}
