"""Files as resources: what a session has left in /sandbox/output is listed, and every file can be read."""

from __future__ import annotations

from base64 import b64encode

import mcp_types as types
from mcp.shared.exceptions import MCPError

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.places import TEMPLATE, file_at, is_text, kind_of, uri_of
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone
from cloche.results.cleaning import clean

OUTPUT = "/sandbox/output"
MAX_SESSIONS = 50
MAX_LISTED = 1000
MAX_DEPTH = 10
MAX_READ = 16 << 20

TEMPLATES = [
    types.ResourceTemplate(
        name="file",
        title="A file in a session",
        uri_template=TEMPLATE,
        description="A file in the sandbox of a session. `path` is relative to /sandbox, as in output/report.csv.",
    )
]


async def listed(visit: Visit) -> list[types.Resource]:
    """The files that the caller's sessions have left for them."""
    mine = [held for held in visit.service.sandboxes.alive() if held.owner == visit.caller.owner]
    found: list[types.Resource] = []
    for held in mine[-MAX_SESSIONS:]:
        try:
            entries = await held.box.files.list(OUTPUT, depth=MAX_DEPTH)
        except ClocheError:  # it has no such folder, or has just ended
            continue
        found += [
            types.Resource(
                uri=uri_of(held.id, entry.path),
                name=clean(entry.path).removeprefix(f"{OUTPUT}/"),
                description=f"Made in session {held.id}.",
                mime_type=kind_of(entry.path),
                size=entry.size,
            )
            for entry in entries
            if entry.kind == "file"
        ]
    return found[:MAX_LISTED]


async def read(visit: Visit, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    """The contents of a file."""
    try:
        session, path = file_at(uri)
        held, _ = await visit.sandbox(session)
        async with held.used() as box:
            entry = await box.files.stat(path)
            if entry.kind == "directory":
                raise FileProblem(f"{path} is a folder.", hint="files_list lists it.", number=21)
            data = await box.files.read(path, length=MAX_READ + 1)
    except ClocheError as problem:
        code = types.INVALID_PARAMS if isinstance(problem, ValueError | Gone | FileMissing) else types.INTERNAL_ERROR
        raise MCPError(code, clean(str(problem)), {"uri": uri, "kind": problem.code}) from None
    if len(data) > MAX_READ:
        raise MCPError(
            types.INTERNAL_ERROR,
            f"The file has more than {MAX_READ} bytes. Read parts of it with files_read.",
            {"uri": uri},
        )
    visit.service.keyring.meter(visit.caller).use(byte_count=len(data))
    kind = kind_of(path)
    if is_text(kind):
        try:
            return types.TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
        except UnicodeDecodeError:
            pass  # whatever its name says
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(data).decode())
