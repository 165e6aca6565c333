"""Files of a sandbox: read, write, list, archive and watch them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import Created, DiskAnswer, EntryAnswer, Page
from cloche.doors.http.archive import tar, zip_archive
from cloche.doors.http.bodies import FolderBody, RenameBody
from cloche.doors.http.dependencies import Json, SandboxId, TheCaller, TheService, page, path_in, path_in_query
from cloche.doors.http.multipart import files
from cloche.doors.http.problems import ERROR_RESPONSES, RangeNotSatisfiable
from cloche.doors.http.runs import EVENTS
from cloche.doors.http.streams import EventStream, LongAnswer, event
from cloche.doors.routing.routes import Operations
from cloche.errors import FileMissing, FileProblem
from cloche.io.tasks import off_loop
from cloche.json_text import to_json
from cloche.model.files import Entry
from cloche.policy.caller import Caller
from cloche.results.cleaning import without_unseen
from cloche.results.fields import plain
from cloche.service.files import OpenFile
from cloche.service.service import Service

operations = Operations("/v1/sandboxes/{sandbox_id}", responses=ERROR_RESPONSES, tag="files")

# A browser must not show content from a sandbox under our origin: it downloads it, does not guess its type, and runs
# nothing in it.
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
_ENTRY = 128  # bytes of an entry in a list, about
_ANY = 1 << 30  # bytes of a file whose size the kernel does not know


@operations.get(
    "/files/{path:file}",
    scope="read",
    stream="file",
    responses={200: {"content": _BYTES}, 206: {"content": _BYTES, "description": "a part of it"}, 304: {}},
)
@operations.head("/files/{path:file}", scope="read")
async def read(request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller, path: str) -> Response:
    """Read a file, or a range of it."""
    name = path_in(request, "/files/") or path
    entry = await service.files.stat(caller, sandbox_id, name)
    is_plain = entry.kind == "file"
    size = entry.size if is_plain else await _size(service, caller, sandbox_id, name)
    # The entry of a link does not tell when its target was changed, so a link has no tag.
    tag = f'"{size:x}-{int(entry.modified * 1e6):x}"' if is_plain else ""
    headers = {**INERT, **_download_name(name), "Accept-Ranges": "bytes", **({"ETag": tag} if tag else {})}
    if tag and _is_known(request, tag):
        return Response(status_code=304, headers=headers)
    if not size and entry.path.startswith(("/proc/", "/sys/")):
        file = await service.files.open(caller, sandbox_id, name)
        return LongAnswer(_contents(file, _ANY), 200, headers, media_type="application/octet-stream")
    start, length, status = _range(request, size, tag)
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
    headers["Content-Length"] = str(length)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    # Opened before the answer begins: a file that cannot be read is an error, not an answer that breaks off.
    file = await service.files.open(caller, sandbox_id, name, offset=start, length=length)
    return LongAnswer(_contents(file, length), status, headers, media_type="application/octet-stream")


def _download_name(path: str) -> dict[str, str]:
    """Name the download if the address would give it a name with characters that disguise it."""
    name = path.rpartition("/")[2]
    safe = without_unseen(name)
    if safe == name:
        return {}
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(safe)}"}


async def _contents(file: OpenFile, length: int) -> AsyncIterator[bytes]:
    left = length
    async with file:
        async for chunk in file:
            yield chunk[:left]  # never more than was promised, though the file may grow
            left -= len(chunk)


async def _size(service: Service, caller: Caller, sandbox_id: str, name: str) -> int:
    """The size of the file that a link leads to; raises when the path leads to no file."""
    async with await service.files.open(caller, sandbox_id, name, length=0) as file:
        return file.size


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
        raise RangeNotSatisfiable(size)
    return start, end - start + 1, 206


@operations.put(
    "/files/{path:file}", scope="run", body="upload", responses={200: {"model": EntryAnswer}}, openapi_extra=_BODY
)
async def write(
    request: Request,
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    path: str,
    mode: Annotated[str | None, Query(pattern="^[0-7]{1,3}$", description="permissions, octal: 644")] = None,
    append: bool = False,
    expected: Annotated[
        str | None,
        Query(
            pattern="^([0-9a-f]{64})?$",
            description="write only if the file still has the contents with this SHA-256; empty: only if there is none",
        ),
    ] = None,
) -> Response:
    """Write a file, all or nothing.  An upload that breaks off leaves the old file.  412: it is not as `expected`."""
    name = path_in(request, "/files/") or path
    permissions = None if mode is None else int(mode, 8)
    chunks = request.stream()
    entry = await service.files.write(
        caller, sandbox_id, name, chunks, mode=permissions, append=append, expected=expected
    )
    return Json(plain(entry))


@operations.delete("/files/{path:file}", scope="run", name="delete", body="none", status_code=204)
async def remove(
    request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller, path: str
) -> Response:
    """Delete a file, or a folder and everything below it."""
    await service.files.remove(caller, sandbox_id, path_in(request, "/files/") or path)
    return Response(status_code=204)


@operations.patch("/files/{path:file}", scope="run", body="json", responses={200: {"model": EntryAnswer}})
async def rename(
    request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller, path: str, body: RenameBody
) -> Response:
    """Rename or move a file or folder."""
    name = path_in(request, "/files/") or path
    return Json(plain(await service.files.rename(caller, sandbox_id, name, body.new_path)))


class Listed(Page[EntryAnswer]):
    """The entries of a folder; `truncated`: there are more than can be listed at once."""

    truncated: bool


@operations.get(
    "/files", scope="read", name="list", responses={200: {"model": Listed}}, openapi_extra={"parameters": [_PATH]}
)
async def listed(
    request: Request,
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    depth: Annotated[int, Query(ge=1, le=1000)] = 1,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 10_000,
    after: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """List a folder, and the folders below it to a depth."""
    found = await service.files.list(caller, sandbox_id, path_in_query(request), depth=depth)
    shown = page(found, limit, after)

    def encoded() -> bytes:
        items = [plain(entry) for entry in shown["items"]]
        return to_json({**shown, "items": items, "truncated": found.truncated}).encode()

    body = await off_loop(len(shown["items"]) * _ENTRY, encoded)
    return Response(body, media_type=Json.media_type)


@operations.get("/stat", scope="read", responses={200: {"model": EntryAnswer}}, openapi_extra={"parameters": [_PATH]})
async def stat(request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Get the entry at a path.  A link is not followed."""
    return Json(plain(await service.files.stat(caller, sandbox_id, path_in_query(request))))


@operations.get("/disk", scope="read", name="get_disk", responses={200: {"model": DiskAnswer}})
async def disk(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Get the size and the use of the workspace's file system."""
    return Json(await service.files.disk(caller, sandbox_id))


@operations.post("/folders", scope="run", name="create_folder", body="json", responses={200: {"model": Created}})
async def make_folder(sandbox_id: SandboxId, body: FolderBody, service: TheService, caller: TheCaller) -> Response:
    """Create a folder and its parents."""
    created, _ = await service.files.make_folder(caller, sandbox_id, body.path)
    return Json({"created": created})


class Uploaded(Page[EntryAnswer]):
    """The files that were written."""


@operations.post(
    "/files",
    scope="run",
    body="upload",
    responses={200: {"model": Uploaded}},
    openapi_extra={**_MULTIPART, "parameters": [_PATH]},
)
async def upload(request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Write many files at once.  The name of each file part is its path, below `?path=`."""
    await service.sandboxes.view(caller, sandbox_id, paused=False)  # before the body is read
    folder = path_in_query(request)
    written: list[dict[str, Any]] = []
    async for name, chunks in files(request):
        entry = await service.files.write(caller, sandbox_id, f"{folder}/{name}", chunks, saves=False)
        written.append(plain(entry))
    await service.files.save(caller, sandbox_id)
    return Json({"items": written, "next": None})


@operations.get(
    "/archive",
    scope="read",
    stream="archive",
    responses={200: {"content": {"application/zip": {}, "application/x-tar": {}, "application/gzip": {}}}},
    openapi_extra={"parameters": [_PATH]},
)
async def archive(
    request: Request,
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    format: Literal["zip", "tar", "tar.gz"] = "zip",
) -> Response:
    """Download a folder as one file, which is made while it is sent."""
    folder = path_in_query(request)
    found = await service.files.list(caller, sandbox_id, folder, depth=1000)
    root = (await service.files.stat(caller, sandbox_id, folder)).path
    name = re.sub(r"[^A-Za-z0-9._-]", "_", root.rpartition("/")[2]) or "files"
    headers = {**INERT, "Content-Disposition": f'attachment; filename="{name}.{format}"'}
    if found.truncated:
        headers["X-Cloche-Truncated"] = "true"

    async def contents(entry: Entry) -> AsyncIterator[bytes] | None:
        try:
            file = await service.files.open(caller, sandbox_id, entry.path, length=entry.size)
        except (FileProblem, FileMissing):
            return None  # it was removed meanwhile, or may not be read
        return _contents(file, entry.size)

    if format == "zip":
        return LongAnswer(zip_archive(root, found, contents), 200, headers, media_type="application/zip")
    kind = "application/gzip" if format == "tar.gz" else "application/x-tar"
    lines = tar(root, found, contents, compressed=format == "tar.gz")
    return LongAnswer(lines, 200, headers, media_type=kind)


@operations.get("/watch", scope="read", stream="reader", responses=EVENTS, openapi_extra={"parameters": [_PATH]})
async def watch(
    request: Request, sandbox_id: SandboxId, service: TheService, caller: TheCaller, recursive: bool = False
) -> Response:
    """Watch a folder.  The answer is server-sent events: `ready`, then one `change` after another."""
    watching = await service.files.watch(caller, sandbox_id, path_in_query(request), recursive=recursive)

    async def lines() -> AsyncIterator[bytes]:
        number = 1
        yield event(number, "ready", {})
        while not watching.sandbox_ended:
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
