"""Uploads of many files in one request, processed part by part as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from cloche.errors import InvalidRun

MAX_PARTS = 1000
MAX_HEADERS = 16 << 10  # bytes of the headers of one part

_HINT = 'Send multipart/form-data whose parts have filename="path/in/the/sandbox".'


class Part(NamedTuple):
    """One part of an upload: the name of its form field and of its file, either of which may be empty."""

    field: str
    filename: str
    contents: AsyncIterator[bytes]


async def files(request: Request) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """Yield each file's name and its contents; read the contents before you advance to the next file."""
    found = False
    async for part in parts(request):
        if not part.filename:
            raise InvalidRun("A part of the upload has no filename.", hint=_HINT)
        found = True
        yield part.filename, part.contents
    if not found:
        raise InvalidRun("There is no file in this upload.", hint=_HINT)


async def parts(request: Request) -> AsyncIterator[Part]:
    """Yield each part of an upload; contents that you have not read are skipped when you advance to the next part."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRun("The request is not multipart/form-data.", hint=_HINT)
    try:
        reader = _Reader(request, boundary)
    except Exception as problem:  # the boundary is too long
        raise InvalidRun(f"The upload is malformed: {problem}"[:300], hint=_HINT) from None
    found = 0
    while (names := await reader.next_part()) is not None:
        found += 1
        if found > MAX_PARTS:
            raise InvalidRun(f"At most {MAX_PARTS} files can be uploaded at once.")
        yield Part(*names, reader.contents())
        await reader.skip()


class _Reader:
    """Turns the parser's callbacks into iteration over parts and their contents."""

    def __init__(self, request: Request, boundary: bytes) -> None:
        self._chunks = request.stream()
        self._events: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._header_name = b""
        self._header_value = b""
        self._disposition = b""
        self._header_size = 0
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._field,
                "on_header_value": self._value,
                "on_header_end": self._header_end,
                "on_headers_finished": lambda: self._events.put_nowait(("part", self._disposition)),
                "on_part_data": lambda data, start, end: self._events.put_nowait(("data", data[start:end])),
                "on_part_end": lambda: self._events.put_nowait(("end", b"")),
                "on_end": lambda: self._events.put_nowait(("over", b"")),
            },
        )

    async def next_part(self) -> tuple[str, str] | None:
        """Return the names of the next part, of its field and of its file; None after the last."""
        while True:
            kind, data = await self._next()
            if kind == "over":
                return None
            if kind == "part":
                _, options = parse_options_header(data)
                self._ended = False
                return _text(options, b"name"), _text(options, b"filename")

    async def contents(self) -> AsyncIterator[bytes]:
        """Yield the rest of this part."""
        while not self._ended:
            kind, data = await self._next()
            if kind == "end":
                self._ended = True
            elif kind == "data":
                yield data

    async def skip(self) -> None:
        """Discard the rest of this part."""
        async for _ in self.contents():
            pass

    async def _next(self) -> tuple[str, bytes]:
        while self._events.empty():
            try:
                chunk = await anext(self._chunks, b"")
            except StopAsyncIteration:
                chunk = b""
            if not chunk:
                raise InvalidRun("The upload is incomplete.", hint="Send it again.")
            try:
                self._parser.write(chunk)
            except InvalidRun:
                raise
            except Exception as problem:
                raise InvalidRun(f"The upload is malformed: {problem}"[:300], hint=_HINT) from None
        return self._events.get_nowait()

    def _begin(self) -> None:
        self._disposition, self._header_size = b"", 0

    def _field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]
        self._count(end - start)

    def _value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]
        self._count(end - start)

    def _header_end(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _count(self, size: int) -> None:
        self._header_size += size
        if self._header_size > MAX_HEADERS:
            raise InvalidRun("The headers of a part are too long.", hint=_HINT)


def _text(options: dict[bytes, bytes], name: bytes) -> str:
    return options.get(name, b"").decode("utf-8", "surrogateescape")
