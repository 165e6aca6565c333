"""Files of a sandbox: read, written, listed, archived, watched.  Every path is resolved inside the wall, never here."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cloche.doors.http.answers import Created, DiskAnswer, EntryAnswer, Page
from cloche.doors.http.archive import tar, zip_archive
from cloche.doors.http.bodies import FolderBody, RenameBody
from cloche.doors.http.given import Json, TheCaller, TheSandbox, TheService, page, path_asked, path_in
from cloche.doors.http.multipart import parts
from cloche.doors.http.problems import ALWAYS, Unsatisfiable
from cloche.doors.http.runs import EVENTS
from cloche.doors.http.streams import EventStream, event
from cloche.model.files import Entry
from cloche.policy.meter import Meter
from cloche.sandbox.transfers import AsyncReading
from cloche.service.held import Held
from cloche.service.shapes import entry_json

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}", responses=ALWAYS, tags=["files"])

# What a sandbox made is shown by no browser in our name: it is downloaded, not typed by guess, and can do nothing.
INERT = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Content-Disposition": "attachment",
}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BODY = {"requestBody": {"required": True, "content": _BYTES}}
_MULTIPART = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": {"type": "object", "additionalProperties": {"type": "string"}}}},
    }
}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_PATH = {"name": "path", "in": "query", "schema": {"type": "string", "default": "."}, "description": "in the sandbox"}
_HEARTBEAT_S = 15.0
_ANY = 1 << 30  # bytes of a file whose size the kernel does not tell


class _AnyPath(PathConvertor):
    """A path as a file may have it: with line breaks, too."""

    regex = r"[\s\S]*"


register_url_convertor("file", _AnyPath())


@router.get(
    "/files/{path:file}",
    responses={200: {"content": _BYTES}, 206: {"content": _BYTES, "description": "a part of it"}, 304: {}},
    response_class=Response,
)
@router.head("/files/{path:file}", include_in_schema=False)
async def read(request: Request, held: TheSandbox, service: TheService, caller: TheCaller, path: str) -> Response:
    """A file's contents, or a range of them."""
    name = path_in(request, "/files/") or path
    meter = service.keyring.meter(caller)
    meter.check_day()
    entry = await held.box.files.stat(name)
    if entry.kind not in ("file", "symlink"):
        await _size(held, name)  # raises what is wrong with it
    size = await _size(held, name) if entry.kind == "symlink" else entry.size
    # A link does not tell when what it points to was changed, so it has no tag.
    tag = "" if entry.kind == "symlink" else f'"{size:x}-{int(entry.modified * 1e6):x}"'
    headers = {**INERT, "Accept-Ranges": "bytes", **({"ETag": tag} if tag else {})}
    if tag and _is_known(request, tag):
        return Response(status_code=304, headers=headers)
    if not size and entry.path.startswith(("/proc/", "/sys/")):
        reading = held.box.files.read_stream(name)
        return StreamingResponse(_contents(held, reading, _ANY), 200, headers, media_type="application/octet-stream")
    start, length, status = _range(request, size, tag)
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
    headers["Content-Length"] = str(length)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    # Opened before anything is answered: what cannot be read is an error, not an answer that breaks off.
    reading = await held.box.files.read_stream(name, offset=start, length=length).begin()
    meter.use(byte_count=length)
    return StreamingResponse(_contents(held, reading, length), status, headers, media_type="application/octet-stream")


async def _contents(held: Held, reading: AsyncReading, length: int) -> AsyncIterator[bytes]:
    left = length
    async with held.used(saves=False), reading:
        async for chunk in reading:
            yield chunk[:left]  # never more than was promised, though the file may grow
            left -= len(chunk)


async def _size(held: Held, name: str) -> int:
    async with held.box.files.read_stream(name, length=0) as reading:
        return reading.size


def _is_known(request: Request, tag: str) -> bool:
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or tag in known


def _range(request: Request, size: int, tag: str) -> tuple[int, int, int]:
    """Where to begin, how much to send, and the status that says so."""
    wanted = request.headers.get("range")
    if wanted is None or request.headers.get("if-range", tag) != tag:
        return 0, size, 200
    match = _RANGE.fullmatch(wanted.strip())
    if match is None or match.groups() == ("", ""):
        return 0, size, 200  # several ranges, or another unit: the whole is a correct answer
    first, last = match.groups()
    start = size - min(int(last), size) if not first else int(first)
    end = size - 1 if not first or not last else min(int(last), size - 1)
    if start >= size or end < start:
        raise Unsatisfiable(size)
    return start, end - start + 1, 206


@router.put("/files/{path:file}", responses={200: {"model": EntryAnswer}}, response_class=Response, openapi_extra=_BODY)
async def write(
    request: Request,
    held: TheSandbox,
    service: TheService,
    caller: TheCaller,
    path: str,
    mode: Annotated[str | None, Query(pattern="^[0-7]{1,3}$", description="permissions, octal: 644")] = None,
    append: bool = False,
) -> Response:
    """Write a file, all or nothing: an upload that breaks off leaves what was there."""
    name = path_in(request, "/files/") or path
    meter = service.keyring.meter(caller)
    entry = await _store(held, meter, name, request.stream(), None if mode is None else int(mode, 8), append)
    return Json(entry_json(entry))


async def _store(
    held: Held,
    meter: Meter,
    name: str,
    chunks: AsyncIterator[bytes],
    mode: int | None = None,
    append: bool = False,
    saves: bool = True,
) -> Entry:
    meter.check_day()
    async with (
        held.used(saves=saves) as box,
        box.files.write_stream(name, mode=mode, append=append) as writing,
    ):
        async for chunk in chunks:
            if chunk:
                meter.use(byte_count=len(chunk))
                await writing.write(chunk)
        entry = await writing.finish()
    held.happened("file.write", {"path": entry.path, "size": entry.size})
    return entry


@router.delete("/files/{path:file}", status_code=204, response_class=Response)
async def remove(request: Request, held: TheSandbox, path: str) -> Response:
    """Remove a file, or a folder with all that is in it."""
    name = path_in(request, "/files/") or path
    async with held.used() as box:
        await box.files.remove(name)
    held.happened("file.remove", {"path": name})
    return Response(status_code=204)


@router.patch("/files/{path:file}", responses={200: {"model": EntryAnswer}}, response_class=Response)
async def rename(request: Request, held: TheSandbox, path: str, body: RenameBody) -> Response:
    """Rename or move a file or folder."""
    name = path_in(request, "/files/") or path
    async with held.used() as box:
        entry = await box.files.rename(name, body.new_path)
    held.happened("file.rename", {"path": name, "new_path": entry.path})
    return Json(entry_json(entry))


class Listed(Page[EntryAnswer]):
    """What is in a folder; `truncated`: there is more than can be listed at once."""

    truncated: bool


@router.get(
    "/files", responses={200: {"model": Listed}}, response_class=Response, openapi_extra={"parameters": [_PATH]}
)
async def listed(
    request: Request,
    held: TheSandbox,
    depth: Annotated[int, Query(ge=1, le=1000)] = 1,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 10_000,
    after: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """What is in a folder, and in the folders below it as deep as wanted."""
    async with held.used(saves=False) as box:
        found = await box.files.list(path_asked(request), depth=depth)
    told = page([entry_json(entry) for entry in found], limit, after)
    return Json({**told, "truncated": found.truncated})


@router.get(
    "/stat", responses={200: {"model": EntryAnswer}}, response_class=Response, openapi_extra={"parameters": [_PATH]}
)
async def stat(request: Request, held: TheSandbox) -> Response:
    """What is at a path; a link is told as a link."""
    return Json(entry_json(await held.box.files.stat(path_asked(request))))


@router.get("/disk", responses={200: {"model": DiskAnswer}}, response_class=Response)
async def disk(held: TheSandbox) -> Response:
    """The workspace's file system."""
    return Json(await held.box.files.disk())


@router.post("/folders", responses={200: {"model": Created}}, response_class=Response)
async def make_folder(held: TheSandbox, body: FolderBody) -> Response:
    """Make a folder, and those on the way."""
    async with held.used() as box:
        created = await box.files.mkdir(body.path)
    return Json({"created": created})


class Uploaded(Page[EntryAnswer]):
    """The files that were written."""


@router.post(
    "/files",
    responses={200: {"model": Uploaded}},
    response_class=Response,
    openapi_extra={**_MULTIPART, "parameters": [_PATH]},
)
async def upload(request: Request, held: TheSandbox, service: TheService, caller: TheCaller) -> Response:
    """Write many files at once: each file part's name is its path, below `?path=`."""
    folder = path_asked(request)
    written: list[dict[str, Any]] = []
    async for name, chunks in parts(request):
        entry = await _store(held, service.keyring.meter(caller), f"{folder}/{name}", chunks, saves=False)
        written.append(entry_json(entry))
    await held.save()
    return Json({"items": written, "next": None})


@router.get(
    "/archive",
    responses={200: {"content": {"application/zip": {}, "application/x-tar": {}, "application/gzip": {}}}},
    response_class=Response,
    openapi_extra={"parameters": [_PATH]},
)
async def archive(request: Request, held: TheSandbox, format: Literal["zip", "tar", "tar.gz"] = "zip") -> Response:
    """A folder as one file, made while it is sent."""
    folder = path_asked(request)
    found = await held.box.files.list(folder, depth=1000)
    root = (await held.box.files.stat(folder)).path
    name = re.sub(r"[^A-Za-z0-9._-]", "_", root.rpartition("/")[2]) or "files"
    headers = {**INERT, "Content-Disposition": f'attachment; filename="{name}.{format}"'}
    if found.truncated:
        headers["X-Cloche-Truncated"] = "true"
    if format == "zip":
        return StreamingResponse(zip_archive(held, root, found), 200, headers, media_type="application/zip")
    kind = "application/gzip" if format == "tar.gz" else "application/x-tar"
    return StreamingResponse(tar(held, root, found, format == "tar.gz"), 200, headers, media_type=kind)


@router.get("/watch", responses=EVENTS, response_class=Response, openapi_extra={"parameters": [_PATH]})
async def watch(request: Request, held: TheSandbox, recursive: bool = False) -> Response:
    """What changes in a folder, as server-sent events: `ready`, then `change` after `change`."""
    watching = await held.box.files.watch(path_asked(request), recursive=recursive)

    async def lines() -> AsyncIterator[bytes]:
        number = 1
        yield event(number, "ready", {})
        while not held.feed.over:
            begin = monotonic()
            change = await watching.next_change(_HEARTBEAT_S)
            if change is not None:
                number += 1
                yield event(number, "change", {"kind": change.kind, "path": change.path})
            elif monotonic() < begin + _HEARTBEAT_S / 2:
                return  # the sandbox has ended
            else:
                yield b": \n\n"

    return EventStream(lines(), watching.close)
