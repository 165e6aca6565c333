"""`files_*`: what is in a session's folder, read and written without running code."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.file_uris import is_text, kind_of, uri_of
from cloche.doors.mcp.sessions import SessionArguments
from cloche.doors.mcp.tool import Answer, Tool, success
from cloche.errors import InvalidRun
from cloche.model.files import Entry
from cloche.results.cleaning import clean
from cloche.results.values import size as size_text

MAX_LISTED = 500
USUAL_READ = 50_000  # bytes
MAX_READ = 1 << 20
MAX_PICTURE = 3 << 20
_PICTURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_utf8 = getincrementaldecoder("utf-8")

Path = Annotated[str, Field(min_length=1, max_length=4096)]


class ReadArguments(SessionArguments):
    """Which file, and which part of it."""

    path: Path
    """Relative paths start at /sandbox."""
    offset: Annotated[int, Field(ge=0)] = 0
    """The byte to begin at."""
    length: Annotated[int, Field(ge=1, le=MAX_READ)] = USUAL_READ
    """How many bytes to read at most."""


class WriteArguments(SessionArguments):
    """Which file, and what to write."""

    path: Path
    """Relative paths start at /sandbox; folders on the way are made."""
    content: str | None = None
    """The text to write."""
    content_base64: str | None = None
    """Or, for what is not text, the bytes in base64."""
    append: bool = False
    """Add to the end of the file, instead of replacing it."""


class ListArguments(SessionArguments):
    """Which folder."""

    path: Path = "."
    """Relative paths start at /sandbox."""
    depth: Annotated[int, Field(ge=1, le=100)] = 1
    """How many levels of folders to list."""


class ListedFile(Answer):
    """A file, or what else there is at a path."""

    path: str
    kind: str
    """file, directory, symlink or other"""
    size: int
    mime: str
    uri: str
    """Where to read it as a resource."""


class ReadAnswer(Answer):
    """A part of a file."""

    session: str
    path: str
    mime: str
    size: int
    """Bytes of the whole file."""
    offset: int
    next_offset: int | None = None
    """Where to go on reading; not there when this was the end."""
    encoding: Literal["text", "base64", "image"]
    """How it is given: as text, as base64, or as an image beside this."""
    content: str


class WriteAnswer(Answer):
    """What was written."""

    session: str
    path: str
    size: int
    uri: str


class ListAnswer(Answer):
    """What is in a folder."""

    session: str
    path: str
    entries: list[ListedFile]
    truncated: bool
    """There is more than is listed."""


async def read(visit: Visit, given: ReadArguments) -> types.CallToolResult:
    """A file's text, its picture, or its bytes in base64."""
    session, _ = await visit.sandbox(given.session)
    kind = kind_of(given.path)
    wants_picture = kind in _PICTURES and given.offset == 0
    length = MAX_PICTURE + 1 if wants_picture else given.length
    opened = await visit.service.files.open(visit.caller, session, given.path, offset=given.offset, length=length)
    async with opened as file:
        data = await file.read()
        whole = file.size
    if wants_picture and len(data) <= MAX_PICTURE and data.startswith(_PICTURES[kind]):
        answer = _read(session, given, kind, whole, len(data), "image", "")
        picture = types.ImageContent(data=b64encode(data).decode(), mime_type=kind)
        return success(f"{clean(given.path)}: {kind}, {size_text(whole)}", answer, [picture])
    data = data[: given.length]
    text = _text(data)
    if text is None:
        answer = _read(session, given, kind, whole, len(data), "base64", b64encode(data).decode())
        heading = f"{clean(given.path)} is not text ({kind}, {size_text(whole)}). Its bytes in base64:"
        return success(f"{heading}\n{answer.content}{_rest(answer)}", answer)
    answer = _read(session, given, kind if is_text(kind) else "text/plain", whole, len(text.encode()), "text", text)
    return success(answer.content + _rest(answer), answer)


def _read(
    session: str, given: ReadArguments, kind: str, whole: int, taken: int, encoding: str, content: str
) -> ReadAnswer:
    following = given.offset + taken
    return ReadAnswer(
        session=session,
        path=clean(given.path),
        mime=kind,
        size=whole,
        offset=given.offset,
        next_offset=following if following < whole and taken else None,
        encoding=encoding,  # type: ignore[arg-type]
        content=content,
    )


def _text(data: bytes) -> str | None:
    """Bytes as text, without the beginning of a character that does not end here; None when they are none."""
    try:
        text = _utf8().decode(data)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or (data and not text) else text


def _rest(answer: ReadAnswer) -> str:
    if answer.next_offset is None:
        return ""
    return f"\n… {answer.size - answer.next_offset} more bytes: read on with offset={answer.next_offset}."


async def write(visit: Visit, given: WriteArguments) -> types.CallToolResult:
    """Write a file, all or nothing."""
    data = _given(given)
    session, note = await visit.sandbox(given.session, makes=True)
    entry = await visit.service.files.write(visit.caller, session, given.path, _whole(data), append=given.append)
    answer = WriteAnswer(session=session, path=clean(entry.path), size=entry.size, uri=uri_of(session, entry.path))
    text = f"{answer.path} has {entry.size} bytes now."
    return success(f"{text}\n[note] {note}" if note else text, answer)


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _given(given: WriteArguments) -> bytes:
    if (given.content is None) == (given.content_base64 is None):
        raise InvalidRun("Give either content or content_base64.", hint="content for text, content_base64 for bytes.")
    if given.content is not None:
        return given.content.encode("utf-8", "replace")
    try:
        return b64decode(given.content_base64 or "", validate=True)
    except (NotBase64, ValueError):
        raise InvalidRun("content_base64 is not base64.", hint="For text, use content.") from None


async def listed(visit: Visit, given: ListArguments) -> types.CallToolResult:
    """What is in a folder."""
    session, _ = await visit.sandbox(given.session)
    found = await visit.service.files.list(visit.caller, session, given.path, depth=given.depth)
    entries = [_entry(session, entry) for entry in found[:MAX_LISTED]]
    truncated = found.truncated or len(found) > MAX_LISTED
    lines = [f"{one.path}/" if one.kind == "directory" else f"{one.path} ({size_text(one.size)})" for one in entries]
    if truncated:
        lines.append("… there is more: list a folder below, or less deep.")
    answer = ListAnswer(session=session, path=clean(given.path), entries=entries, truncated=truncated)
    return success("\n".join(lines) or f"{clean(given.path)} is empty.", answer)


def _entry(session: str, entry: Entry) -> ListedFile:
    return ListedFile(
        path=clean(entry.path),
        kind=clean(entry.kind),
        size=entry.size,
        mime="inode/directory" if entry.kind == "directory" else kind_of(entry.path),
        uri=uri_of(session, entry.path),
    )


TOOLS = (
    Tool(
        "files_read",
        "Read a file",
        "Read a file of a session. Text comes as text, pictures (PNG, JPEG, GIF, WebP) as images that you can look at, "
        "all else as base64. Long files come in parts: the answer says where to read on. To analyse data, read it with "
        "code_execution instead.",
        ReadArguments,
        ReadAnswer,
        read,
        reads=True,
    ),
    Tool(
        "files_write",
        "Write a file",
        "Write a file in a session, for code to use or for the user to have (in /sandbox/output). It is replaced as a "
        "whole unless you append.",
        WriteArguments,
        WriteAnswer,
        write,
        destroys=True,
    ),
    Tool(
        "files_list",
        "List files",
        "List what is in a folder of a session, with sizes.",
        ListArguments,
        ListAnswer,
        listed,
        reads=True,
    ),
)
