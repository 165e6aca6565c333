"""E2B's `/files`: reads and writes whole files, with a token or by a signed address."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator
from posixpath import basename

from starlette.requests import Request
from starlette.types import Message, Receive

from cloche.doors.e2b.answers import BrokenOff, Refusal, answer, json_body
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import ConnectProblem
from cloche.doors.e2b.envd.filesystem import METADATA
from cloche.doors.e2b.envd.users import User, named
from cloche.doors.e2b.tokens import signed_query
from cloche.doors.http.files import INERT
from cloche.doors.http.multipart import parts
from cloche.errors import FileMissing, FileProblem
from cloche.io.tasks import off_loop
from cloche.service.files import OpenFile

_BYTES = b"application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_METADATA = b"x-metadata-"
_FIELD = "file"  # the field of a form that holds a file, even if it has no filename
_MAX_UNSIZED = 64 << 20  # bytes of a file whose size the kernel reports as 0
_PACKED = 4 << 10  # bytes from which a piece is unpacked in a thread: it may have hundreds of members
_UNPACKED = 256 << 10  # bytes that are unpacked at a time
_INERT = [(name.lower().encode(), value.encode()) for name, value in INERT.items()]


async def files(call: Call) -> None:
    """Answer a request to `/files`."""
    query = signed_query(call.scope)
    method = call.scope["method"]
    if method not in ("GET", "HEAD", "POST"):
        raise Refusal(405, "Files are read with GET and written with POST.")
    try:
        user = named(query.get("username") or call.sandbox.traits.user)
        if method == "POST":
            await _write(call, user, query.get("path"))
        else:
            await _read(call, user.resolve(query.get("path", "")), with_body=method == "GET")
    except ConnectProblem as problem:
        raise Refusal(401 if problem.code == "unauthenticated" else 400, problem.message) from None


# --- reading


async def _read(call: Call, path: str, *, with_body: bool) -> None:
    wanted = call.headers.get(b"range")
    try:
        file = await call.service.files.open(call.caller, call.identity, path)
    except FileMissing:
        raise Refusal(404, f"path '{path}' does not exist") from None
    except FileProblem as problem:
        raise _refused(problem, path) from None
    start, length, status = 0, file.size, 200
    headers = [(b"content-type", _BYTES), (b"accept-ranges", b"bytes"), *_INERT]
    if wanted is not None and file.size:
        start, length, status = _range(wanted, file.size)
        if status == 206:
            headers.append((b"content-range", f"bytes {start}-{start + length - 1}/{file.size}".encode()))
            await file.close()
            file = await call.service.files.open(call.caller, call.identity, path, offset=start, length=length)
    async with file:
        if not with_body:
            await _send_head(call, status, headers, length)
        elif not length:
            await _stream_unsized(call, headers, file)
        else:
            await _stream(call, status, headers, file, length)


async def _send_head(call: Call, status: int, headers: list[tuple[bytes, bytes]], length: int) -> None:
    # Nobody knows how much a file of size 0 has before it is read.
    size = [(b"content-length", str(length).encode())] if length else []
    await call.send({"type": "http.response.start", "status": status, "headers": [*headers, *size]})
    await call.send({"type": "http.response.body", "body": b""})


async def _stream(call: Call, status: int, headers: list[tuple[bytes, bytes]], file: OpenFile, length: int) -> None:
    headers = [*headers, (b"content-length", str(length).encode())]
    await call.send({"type": "http.response.start", "status": status, "headers": headers})
    left = length
    async for piece in file:
        piece = piece[:left]  # never more than Content-Length promises, even if the file grows
        left -= len(piece)
        await call.send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        if not left:
            return
    raise BrokenOff  # the file has shrunk: an incomplete body tells the client


async def _stream_unsized(call: Call, headers: list[tuple[bytes, bytes]], file: OpenFile) -> None:
    """Send a file of size 0 as it is read, since files in /proc have contents nevertheless, and some are large."""
    pieces = aiter(file)
    piece = await anext(pieces, b"")
    if not piece:
        headers = [*headers, (b"content-length", b"0")]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})
    left = _MAX_UNSIZED
    while piece and left:
        left = max(0, left - len(piece))
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        piece = await anext(pieces, b"")
    if piece:
        raise BrokenOff  # an incomplete body tells the client that the file is too large
    await call.send({"type": "http.response.body", "body": b""})


def _range(wanted: str, size: int) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(wanted.strip())
    if match is None or match.groups() == ("", ""):
        return 0, size, 200
    first, last = match.groups()
    start = size - min(int(last), size) if not first else int(first)
    end = size - 1 if not first or not last else min(int(last), size - 1)
    if start >= size or end < start:
        raise Refusal(416, "the range is not in the file", ((b"content-range", f"bytes */{size}".encode()),))
    return start, end - start + 1, 206


# --- writing


async def _write(call: Call, user: User, target: str | None) -> None:
    attributes = _attributes(call)
    receive = _unpacked(call)
    kind = call.headers.get(b"content-type", "").partition(";")[0].strip().lower()
    written: list[str] = []
    if kind == "application/octet-stream":
        if not target:
            raise Refusal(400, "path is required with application/octet-stream")
        written.append(user.resolve(target))
        await _store(call, written[0], _pieces(receive), attributes)
    elif kind == "multipart/form-data":
        async for part in parts(Request(call.scope, receive)):
            if not part.filename and part.field != _FIELD:
                continue  # another field of the form
            if not target and not part.filename:
                raise Refusal(400, "a part without a filename needs the path in the address")
            path = user.resolve(target or part.filename)
            if path in written:
                raise Refusal(400, f"you cannot upload multiple files to the same path '{path}' in one upload request")
            await _store(call, path, part.contents, attributes)
            written.append(path)
    else:
        raise Refusal(400, "a file is uploaded as application/octet-stream or multipart/form-data")
    metadata = {name[len(METADATA) :]: value for name, value in attributes.items()}
    more = {"metadata": metadata} if metadata else {}
    await answer(call.send, 200, [{"path": path, "name": basename(path), "type": "file", **more} for path in written])


async def _store(call: Call, path: str, pieces: AsyncIterator[bytes], attributes: dict[str, str]) -> None:
    try:
        # In place, as envd does: a client that watches the folder sees the file created, chowned and written.
        await call.service.files.write(call.caller, call.identity, path, pieces, in_place=True, attributes=attributes)
    except FileMissing:
        raise Refusal(404, f"path '{path}' does not exist") from None
    except FileProblem as problem:
        raise _refused(problem, path) from None


def _attributes(call: Call) -> dict[str, str]:
    found = {}
    for name, value in call.scope["headers"]:
        key = name.lower()
        if key.startswith(_METADATA):
            text = value.decode("latin-1")
            if key == _METADATA or not all(" " <= character <= "~" for character in text):
                raise Refusal(400, "names and values of metadata must be printable ASCII")
            found[METADATA + key[len(_METADATA) :].decode("ascii", "replace")] = text
    return found


def _unpacked(call: Call) -> Receive:
    """Return a `receive` that decompresses the body."""
    named = [value.decode("latin-1") for name, value in call.scope["headers"] if name == b"content-encoding"]
    encoding = ", ".join(named).strip().lower()
    if encoding in ("", "identity"):
        return call.receive
    if encoding != "gzip":
        raise Refusal(415, f"unsupported Content-Encoding: {encoding}")
    return _Unzipped(call.receive, call.service.configuration.max_upload)


class _Unzipped:
    """A `receive` that decompresses a body in gzip's format, which may consist of several members."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._member = zlib.decompressobj(wbits=31)
        self._packed, self._more = b"", True
        self._size = 0  # bytes that were unpacked

    async def __call__(self) -> Message:
        if not self._packed and self._more:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._packed, self._more = message.get("body", b""), message.get("more_body", False)
        try:
            body = await off_loop(len(self._packed), self._unpack, _PACKED)
        except zlib.error:
            raise Refusal(400, "error decompressing request body: it is not gzip") from None
        self._size += len(body)
        if self._size > self._most:
            raise Refusal(413, f"the decompressed body is too large: at most {self._most} bytes can be uploaded")
        has_more = bool(self._packed) or self._more
        if not has_more and not self._member.eof:
            raise Refusal(400, "error decompressing request body: it is incomplete")
        return {"type": "http.request", "body": body, "more_body": has_more}

    def _unpack(self) -> bytes:
        """Unpack at most a piece, because a small body may expand to a huge one, or have a member for each byte."""
        found = bytearray()
        while self._packed and len(found) < _UNPACKED:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            found += self._member.decompress(self._packed, _UNPACKED - len(found))
            self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        if not self._packed and not self._more and not self._member.eof:
            found += self._member.flush()  # the piece was full, and its last bytes are still inside
        return bytes(found)


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise BrokenOff
        more = message.get("more_body", False)
        yield message.get("body", b"")


def _refused(problem: FileProblem, path: str) -> Refusal:
    number = problem.errno
    if number in (28, 122):
        return Refusal(507, f"not enough disk space available: {path}")
    if number == 21:
        return Refusal(400, f"path is a directory: {path}")
    return Refusal(400, problem.message)  # clients may repeat a request after any other status


# --- composing


async def compose(call: Call) -> None:
    """Join several files into one, and remove them."""
    request = await json_body(call.receive)
    sources, destination = request.get("source_paths"), request.get("destination")
    if not isinstance(sources, list) or not sources or not all(isinstance(path, str) for path in sources):
        raise Refusal(400, "source_paths must not be empty")
    if not isinstance(destination, str) or not destination:
        raise Refusal(400, "destination is required")
    try:
        user = named(str(request.get("username") or call.sandbox.traits.user))
        paths, target = [user.resolve(path) for path in sources], user.resolve(destination)
    except ConnectProblem as problem:
        raise Refusal(401 if problem.code == "unauthenticated" else 400, problem.message) from None
    if target in paths:
        raise Refusal(400, f"source path {target} cannot be the same as destination")
    try:
        await call.service.files.join(call.caller, call.identity, paths, target)
    except FileMissing as problem:
        raise Refusal(404, problem.message) from None
    except FileProblem as problem:
        raise _refused(problem, target) from None
    await answer(call.send, 200, {"path": target, "name": basename(target), "type": "file"})
