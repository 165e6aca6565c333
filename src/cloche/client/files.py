"""Files in a sandbox on a server."""

from __future__ import annotations

from _collections_abc import Mapping
from json import loads
from time import monotonic

from cloche.client import shapes
from cloche.client.connection import AsyncAnswer, Broken
from cloche.client.feed import AsyncFeed
from cloche.client.server import AsyncUpload
from cloche.engine.files import AsyncFiles, AsyncWatch
from cloche.engine.transfers import AsyncReading, AsyncWriting
from cloche.errors import Gone, InvalidRun, SandboxFailed
from cloche.model.files import Change, Entry, Listing
from cloche.sandbox.checks import checked_data, checked_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cloche.client.sandbox import AsyncRemoteSandbox

_DEEPEST = 1000
_NOTHING_THERE = 416  # the status for a range that begins after the end


class AsyncRemoteFiles(AsyncFiles):
    """`box.files`, over HTTP."""

    _box: AsyncRemoteSandbox

    async def write(
        self,
        path: str,
        data: str | bytes | bytearray | memoryview,
        *,
        mode: int | None = None,
        append: bool = False,
    ) -> Entry:
        """Write a file; folders on the way are made.  It is replaced as a whole, or stays as it was."""
        checked, target = checked_data("data", data), _target(path, mode, append)
        await self._box.open()
        answer = await self._box.server.ask(
            "PUT",
            self._box.path(target),
            checked,
            content_type="application/octet-stream",
            safe=not append,
        )
        return shapes.entry(loads(await self._box.server.read(answer)))

    def write_stream(
        self,
        path: str,
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> AsyncRemoteWriting:
        """Write a file piece by piece; nobody sees any of it before it is finished, unless it is appended to."""
        if in_place or attributes is not None:
            raise InvalidRun("in_place= and attributes= are for sandboxes of this host.", hint="Leave them out.")
        return AsyncRemoteWriting(self._box, {"path": path, "target": _target(path, mode, append)})

    def read_stream(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncRemoteReading:
        """Read a file piece by piece, however large it is; iterate over what this returns."""
        for name, value in (("offset", offset), ("length", 0 if length is None else length)):
            if type(value) is not int or not 0 <= value < 1 << 62:
                raise InvalidRun(f"{name} must be a whole number of bytes, not {value!r:.100}.")
        return AsyncRemoteReading(self._box, {"path": checked_path(path), "offset": offset, "length": length})

    async def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """What is in a folder, and in the folders below it when `depth` says so."""
        if type(depth) is not int or depth < 1:
            raise InvalidRun("depth must be 1 or more.")
        listing, after = Listing(), ""
        while True:
            query = f"path={_quoted(path)}&depth={min(depth, _DEEPEST)}&limit=100000{after}"
            told = await self._box.call("GET", f"/files?{query}")
            listing += map(shapes.entry, told["items"])
            listing.truncated = bool(told["truncated"])
            if not told["next"]:
                return listing
            after = f"&after={told['next']}"

    async def stat(self, path: str) -> Entry:
        """What is at a path; a link is told as a link."""
        return shapes.entry(await self._box.call("GET", f"/stat?path={_quoted(path)}"))

    async def mkdir(self, path: str) -> bool:
        """Make a folder and those on the way; False when it was there."""
        told = await self._box.call("POST", "/folders", {"path": checked_path(path)})
        return bool(told["created"])

    async def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        told = {"new_path": checked_path(new_path)}
        return shapes.entry(await self._box.call("PATCH", f"/files/{_quoted(path)}", told))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self._box.call("DELETE", f"/files/{_quoted(path)}", safe=False)

    async def watch(self, path: str = ".", *, recursive: bool = False) -> AsyncRemoteWatch:
        """Be told what changes in a folder: iterate over what this returns, and close it."""
        target = f"/watch?path={_quoted(path)}&recursive={'true' if recursive else 'false'}"
        feed = await self._box.feed("GET", target)
        await feed.next()  # it is ready
        return AsyncRemoteWatch(feed)

    async def disk(self) -> dict[str, int]:
        """The workspace's file system: total and free, in bytes and in files."""
        told: dict[str, int] = await self._box.call("GET", "/disk")
        return told


class AsyncRemoteReading(AsyncReading):
    """A file on its way out."""

    _box: AsyncRemoteSandbox
    _answer: AsyncAnswer | None = None

    async def begin(self) -> Self:
        """Open the file, and learn its size; iterating does it, too."""
        if self._answer is None:
            await self._box.open()
            path = self._box.path(f"/files/{_quoted(self._path)}")
            offset, length = self._request["offset"], self._request["length"]
            wanted = "" if length is None else str(offset + max(length, 1) - 1)
            header = f"Range: bytes={offset}-{wanted}\r\n" if offset or wanted else ""
            answer = await self._box.server.ask("GET", path, accept="*/*", headers=header, fine=_NOTHING_THERE)
            self._answer = answer
            total = answer.headers.get("content-range", "").rpartition("/")[2]
            self._size = int(total or answer.headers.get("content-length", "0"))
            if answer.status == _NOTHING_THERE or length == 0:
                await self._box.server.read(answer)
                self._over = True
        return self

    async def close(self) -> None:
        """Read no further."""
        if not self._over:
            self._over = True
            if self._answer is not None:
                self._answer.connection.close()

    async def __anext__(self) -> bytes:
        await self.begin()
        if self._over:
            raise StopAsyncIteration
        assert self._answer is not None
        try:
            piece = await self._answer.piece(60)
        except (Broken, OSError) as problem:
            await self.close()
            raise self._box.server.lost(problem) from problem
        if not piece:
            self._over = True
            self._box.server.done_with(self._answer)
            raise StopAsyncIteration
        return piece

    def __del__(self) -> None:
        if self._answer is not None and not self._over:
            self._answer.connection.close()


class AsyncRemoteWriting(AsyncWriting):
    """A file on its way in."""

    _box: AsyncRemoteSandbox
    _upload: AsyncUpload | None = None

    async def begin(self) -> Self:
        """Ask for it; writing does it, too."""
        if self._over:
            raise Gone("This file was finished or aborted already.", hint="Begin another with write_stream.")
        if self._upload is None:
            await self._box.open()
            self._upload = await self._box.server.upload("PUT", self._box.path(self._request["target"]))
        return self

    async def write(self, data: str | bytes | bytearray | memoryview) -> None:
        """Send more of the contents; waits while the sandbox is busy with what it has."""
        checked = checked_data("data", data)
        await self.begin()
        assert self._upload is not None
        for start in range(0, len(checked), 256 << 10):
            try:
                await self._upload.send(checked[start : start + (256 << 10)])
            except BaseException:
                await self.abort()
                raise

    async def finish(self) -> Entry:
        """Put the file in its place; what is there now."""
        await self.begin()
        assert self._upload is not None
        try:
            told = await self._upload.finish()
        except BaseException:
            await self.abort()
            raise
        self._over = True
        return shapes.entry(told)

    async def abort(self) -> None:
        """Throw away what was sent; what was there before stays."""
        if not self._over:
            self._over = True
            if self._upload is not None:
                self._upload.close()

    def __del__(self) -> None:
        if self._upload is not None and not self._over:
            self._upload.close()


class AsyncRemoteWatch(AsyncWatch):
    """Changes in a folder, as they happen."""

    def __init__(self, feed: AsyncFeed) -> None:
        self._feed = feed

    async def next_change(self, timeout: float | None = None) -> Change | None:
        """The next change; None when there is none in time, or the sandbox has ended."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            try:
                event = await self._feed.next(None if deadline is None else max(deadline - monotonic(), 0))
            except (TimeoutError, SandboxFailed):
                return None
            if event is None:
                return None
            if event[0] == "change":
                return Change(event[1]["kind"], event[1]["path"])

    async def close(self) -> None:
        """Stop watching."""
        self._feed.close()

    def __del__(self) -> None:
        self._feed.close()


def _target(path: str, mode: int | None, append: bool) -> str:
    if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
        raise InvalidRun(f"mode must be between 0o000 and 0o777, not {mode!r:.100}.")
    options = [f"mode={mode:o}"] if mode is not None else []
    if append:
        options.append("append=true")
    return f"/files/{_quoted(path)}{'?' if options else ''}{'&'.join(options)}"


def _quoted(path: str) -> str:
    return shapes.quoted(checked_path(path))
