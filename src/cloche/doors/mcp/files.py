"""The `files_*` tools: read, write and list the files of a session without running code."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.file_uris import PICTURES, is_text, kind_of, uri_of
from cloche.doors.mcp.sessions import SessionArguments
from cloche.doors.mcp.tool import Answer, Tool, ToolAnswer, success
from cloche.errors import InvalidRun
from cloche.io.tasks import off_loop
from cloche.model.files import Entry
from cloche.results.cleaning import clean
from cloche.results.pictures import MAX_SIDE, claimed_kind, picture_of
from cloche.results.values import size as size_text

MAX_LISTED = 500
USUAL_READ = 50_000  # bytes
MAX_READ = 1 << 20
_AT_ONCE = 256 << 10  # bytes of one answer, which is encoded on the event loop, and may be six times as long
MAX_PICTURE = 3_000_000  # bytes; services for models take pictures of 5 MB, in base64
_utf8 = getincrementaldecoder("utf-8")

Path = Annotated[str, Field(min_length=1, max_length=4096)]


class ReadArguments(SessionArguments):
    path: Path
    """Relative paths start at /sandbox."""
    offset: Annotated[int, Field(ge=0)] = 0
    """The byte offset to start at."""
    length: Annotated[int, Field(ge=1, le=MAX_READ)] = USUAL_READ
    """The largest number of bytes to read."""


class WriteArguments(SessionArguments):
    path: Path
    """Relative paths start at /sandbox; missing parent folders are created."""
    content: str | None = None
    """The text to write."""
    content_base64: str | None = None
    """The bytes to write, in base64; use this instead of `content` for data that is not text."""
    append: bool = False
    """Append to the file instead of replacing it."""


class ListArguments(SessionArguments):
    path: Path = "."
    """Relative paths start at /sandbox."""
    depth: Annotated[int, Field(ge=1, le=100)] = 1
    """How many levels of folders to list."""


class ListedFile(Answer):
    """A file, a folder or another entry."""

    path: str
    kind: str
    """file, directory, symlink or other"""
    size: int
    mime: str
    uri: str
    """The URI of the file as a resource."""


class ReadAnswer(ToolAnswer):
    session: str
    path: str
    mime: str
    size: int
    """The size of the whole file in bytes."""
    offset: int
    next_offset: int | None = None
    """The offset of the next part; missing if this part reaches the end of the file."""
    encoding: Literal["text", "base64", "image", "none"]
    """The form of the contents: text, base64, a separate image block, or none for a picture that cannot be shown."""
    content: str


class WriteAnswer(ToolAnswer):
    session: str
    path: str
    size: int
    uri: str


class ListAnswer(ToolAnswer):
    session: str
    path: str
    entries: list[ListedFile]
    truncated: bool
    """Whether the list is incomplete."""


async def read(visit: Visit, arguments: ReadArguments) -> types.CallToolResult:
    """Return a file as text, as a picture, or in base64; its content decides, not its name."""
    session = await visit.sandbox(arguments.session)
    most = min(arguments.length, _AT_ONCE)
    data, whole = await _part(visit, session, arguments.path, arguments.offset, most)
    text, kind = _text(data), kind_of(arguments.path)
    if text is None and arguments.offset == 0 and (claimed_kind(data) or kind in PICTURES):
        if len(data) < whole <= MAX_PICTURE:
            data, whole = await _part(visit, session, arguments.path, 0, MAX_PICTURE + 1)
        return await _shown(session, arguments, data, whole)
    if text is None:
        answer = _read_answer(session, arguments, kind, whole, len(data), "base64", b64encode(data).decode())
        heading = f"{clean(arguments.path)} is not text ({kind}, {size_text(whole)}). Its bytes in base64:"
        return success(f"{heading}\n{answer.content}{_continuation(answer)}", answer)
    answer = _read_answer(
        session, arguments, kind if is_text(kind) else "text/plain", whole, len(text.encode()), "text", text
    )
    return success(answer.content + _continuation(answer), answer)


async def _part(visit: Visit, session: str, path: str, offset: int, length: int) -> tuple[bytes, int]:
    """Return a part of a file, and the size of the whole file."""
    opened = await visit.service.files.open(visit.caller, session, path, offset=offset, length=length)
    async with opened as file:
        return await file.read(), file.size


async def _shown(session: str, arguments: ReadArguments, data: bytes, whole: int) -> types.CallToolResult:
    """Return a picture as an image, or a description of one that is broken or too large."""
    picture = await asyncio.to_thread(picture_of, data) if len(data) == whole <= MAX_PICTURE else None
    path = clean(arguments.path)
    if picture is not None:
        answer = _read_answer(session, arguments, picture.mime, whole, whole, "image", "")
        block = types.ImageContent(data=b64encode(data).decode(), mime_type=picture.mime)
        size = f"{picture.width}×{picture.height}"  # noqa: RUF001
        return success(f"{path}: {picture.mime}, {size}, {size_text(whole)}", answer, [block])
    claimed = claimed_kind(data) or kind_of(arguments.path)
    if whole > MAX_PICTURE:
        reason = f"it has {size_text(whole)}, and the limit is {size_text(MAX_PICTURE)}. Make a smaller copy"
    else:
        reason = (
            f"its {size_text(whole)} are not a complete {claimed} of at most {MAX_SIDE} pixels a side. Look into it"
        )
    answer = _read_answer(session, arguments, "application/octet-stream", whole, whole, "none", "")
    return success(f"{path} cannot be shown as a picture: {reason} with code_execution.", answer)


def _read_answer(
    session: str, arguments: ReadArguments, kind: str, whole: int, taken: int, encoding: str, content: str
) -> ReadAnswer:
    following = arguments.offset + taken
    return ReadAnswer(
        session=session,
        path=clean(arguments.path),
        mime=kind,
        size=whole,
        offset=arguments.offset,
        next_offset=following if following < whole and taken else None,
        encoding=encoding,  # type: ignore[arg-type]
        content=content,
    )


def _text(data: bytes) -> str | None:
    """Decode bytes, leaving out an incomplete character at the end; None if they are not text."""
    try:
        text = _utf8().decode(data)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or (data and not text) else text


def _continuation(answer: ReadAnswer) -> str:
    if answer.next_offset is None:
        return ""
    return f"\n… {answer.size - answer.next_offset} more bytes: read on with offset={answer.next_offset}."


async def write(visit: Visit, arguments: WriteArguments) -> types.CallToolResult:
    """Write a file completely, or not at all."""
    size = len(arguments.content or arguments.content_base64 or "")
    data = await off_loop(size, lambda: _contents(arguments))
    session = await visit.sandbox(arguments.session, makes=True)
    entry = await visit.service.files.write(
        visit.caller, session, arguments.path, _whole(data), append=arguments.append
    )
    answer = WriteAnswer(session=session, path=clean(entry.path), size=entry.size, uri=uri_of(session, entry.path))
    return success(f"{answer.path} has {entry.size} bytes now.", answer)


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _contents(arguments: WriteArguments) -> bytes:
    if (arguments.content is None) == (arguments.content_base64 is None):
        raise InvalidRun(
            "Give either content or content_base64.", hint="Use content for text, content_base64 for bytes."
        )
    if arguments.content is not None:
        return arguments.content.encode("utf-8", "replace")
    try:
        return b64decode(arguments.content_base64 or "", validate=True)
    except (NotBase64, ValueError):
        raise InvalidRun("content_base64 is not base64.", hint="For text, use content.") from None


async def listed(visit: Visit, arguments: ListArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    found = await visit.service.files.list(visit.caller, session, arguments.path, depth=arguments.depth)
    entries = [_entry(session, entry) for entry in found[:MAX_LISTED]]
    truncated = found.truncated or len(found) > MAX_LISTED
    lines = [f"{one.path}/" if one.kind == "directory" else f"{one.path} ({size_text(one.size)})" for one in entries]
    if truncated:
        lines.append("… the list is incomplete: list a subfolder, or use a smaller depth.")
    answer = ListAnswer(session=session, path=clean(arguments.path), entries=entries, truncated=truncated)
    return success("\n".join(lines) or f"{clean(arguments.path)} is empty.", answer)


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
        "other files as base64; the content decides, not the name. Long files come in parts: the answer gives the "
        "offset of the next part. To analyse data, read it with code_execution instead.",
        ReadArguments,
        ReadAnswer,
        read,
        reads=True,
    ),
    Tool(
        "files_write",
        "Write a file",
        "Write a file in a session: for code to use, or in /sandbox/output for the user to keep. An existing file is "
        "replaced unless you append.",
        WriteArguments,
        WriteAnswer,
        write,
        destroys=True,
    ),
    Tool(
        "files_list",
        "List files",
        "List the files and folders in a folder of a session, with their sizes.",
        ListArguments,
        ListAnswer,
        listed,
        reads=True,
    ),
)
