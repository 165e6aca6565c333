"""Files as MCP resources: files in /sandbox/output are listed, and every file of a session can be read."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import mcp_types as types
from mcp.shared.exceptions import MCPError

from cloche.doors.faults import for_client
from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.file_uris import TEMPLATE, file_at, is_text, kind_of, uri_of
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone
from cloche.results.cleaning import clean
from cloche.results.pictures import claimed_kind, picture_of

OUTPUT = "/sandbox/output"
MAX_SESSIONS = 50
MAX_LISTED = 1000
MAX_DEPTH = 10
MAX_READ = 1 << 20

TEMPLATES = [
    types.ResourceTemplate(
        name="file",
        title="A file in a session",
        uri_template=TEMPLATE,
        description="A file in the sandbox of a session. `path` is relative to /sandbox, as in output/report.csv.",
    )
]


async def listed(visit: Visit) -> list[types.Resource]:
    """List the files in /sandbox/output of the caller's sessions."""
    found: list[types.Resource] = []
    for session in [view.id for view in visit.service.sandboxes.living(visit.caller)][-MAX_SESSIONS:]:
        try:
            entries = await visit.service.files.list(visit.caller, session, OUTPUT, depth=MAX_DEPTH)
        except ClocheError:  # the session has no such folder, or has just ended
            continue
        found += [
            types.Resource(
                uri=uri_of(session, entry.path),
                name=clean(entry.path).removeprefix(f"{OUTPUT}/"),
                description=f"Made in session {session}.",
                mime_type=kind_of(entry.path),
                size=entry.size,
            )
            for entry in entries
            if entry.kind == "file"
        ]
    return found[:MAX_LISTED]


async def read(visit: Visit, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    try:
        session, path = file_at(uri)
        session = await visit.sandbox(session)
        entry = await visit.service.files.stat(visit.caller, session, path)
        if entry.kind == "directory":
            raise FileProblem(f"{path} is a folder.", hint="files_list lists it.", number=21)
        async with await visit.service.files.open(visit.caller, session, path, length=MAX_READ + 1) as file:
            data = await file.read()
    except ClocheError as problem:
        code = types.INVALID_PARAMS if isinstance(problem, ValueError | Gone | FileMissing) else types.INTERNAL_ERROR
        shown = for_client(problem, "mcp")
        text = clean(f"{shown.message} {shown.hint}".rstrip())
        raise MCPError(code, text, {"uri": uri, "kind": shown.code}) from None
    if len(data) > MAX_READ:
        raise MCPError(
            types.INTERNAL_ERROR,
            f"The file has more than {MAX_READ} bytes. Read parts of it with files_read.",
            {"uri": uri},
        )
    kind = kind_of(path)
    if is_text(kind) or kind.startswith("image/"):
        try:
            text = data.decode()
            return types.TextResourceContents(uri=uri, mime_type=kind if is_text(kind) else "text/plain", text=text)
        except UnicodeDecodeError:
            pass  # the file is not text, although its name suggests it, or it is a picture
    if kind.startswith("image/") or claimed_kind(data):
        # Clients show the model every resource that has the type of a picture.
        picture = await asyncio.to_thread(picture_of, data)
        kind = "application/octet-stream" if picture is None else picture.mime
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(data).decode())
