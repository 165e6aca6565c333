# Generated from src/cloche/client/files.py by scripts/blocking.py: edit that file instead.
"""Files of a sandbox on a server."""

from __future__ import annotations

from json import loads
from time import monotonic

from cloche.blocking.client.connection import Answer, Broken
from cloche.blocking.client.feed import Feed
from cloche.blocking.client.server import Upload
from cloche.client import shapes
from cloche.errors import InvalidRun, SandboxFailed
from cloche.model.files import Change, Entry, Listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.sandbox.checks import Data

_DEEPEST = 1000
_PIECE = 256 << 10
_NOTHING_THERE = 416  # the status for a range that begins after the end of the file


class ServerFiles:
    """The files of one sandbox."""

    def __init__(self, box: ServerSandbox) -> None:
        self._box = box

    def write(self, path: str, data: Data, mode: int | None, append: bool) -> Entry:
        """Write a file, and make missing folders."""
        self._box.open()
        answer = self._box.server.ask(
            "PUT",
            self._box.path(_target(path, mode, append)),
            data,
            content_type="application/octet-stream",
            safe=not append,
        )
        return shapes.entry(loads(self._box.server.read(answer)))

    def writer(
        self,
        path: str,
        mode: int | None,
        append: bool,
        in_place: bool,
        attributes: dict[str, str] | None,
        expected: str | None,
    ) -> ServerWriter:
        """Return a writer that writes a file piece by piece."""
        if in_place or attributes is not None:
            raise InvalidRun("in_place= and attributes= are for sandboxes of this host.", hint="Leave them out.")
        return ServerWriter(self._box, _target(path, mode, append, expected))

    def reader(self, path: str, offset: int, length: int | None) -> ServerReader:
        """Return a reader that reads a file piece by piece."""
        return ServerReader(self._box, path, offset, length)

    def list(self, path: str, depth: int) -> Listing:
        """List the entries of a folder, and with `depth` those of the folders below it."""
        listing, after = Listing(), ""
        while True:
            query = f"path={shapes.quoted(path)}&depth={min(depth, _DEEPEST)}&limit=100000{after}"
            page = self._box.call("GET", f"/files?{query}")
            listing += map(shapes.entry, page["items"])
            listing.truncated = bool(page["truncated"])
            if not page["next"]:
                return listing
            after = f"&after={page['next']}"

    def stat(self, path: str) -> Entry:
        """Describe the entry at a path."""
        return shapes.entry(self._box.call("GET", f"/stat?path={shapes.quoted(path)}"))

    def mkdir(self, path: str) -> bool:
        """Make a folder and its parents; return False if it existed already."""
        answer = self._box.call("POST", "/folders", {"path": path})
        return bool(answer["created"])

    def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        return shapes.entry(self._box.call("PATCH", f"/files/{shapes.quoted(path)}", {"new_path": new_path}))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        self._box.call("DELETE", f"/files/{shapes.quoted(path)}", safe=False)

    def watch(self, path: str, recursive: bool) -> ServerWatcher:
        """Watch a folder."""
        target = f"/watch?path={shapes.quoted(path)}&recursive={'true' if recursive else 'false'}"
        feed = self._box.feed("GET", target)
        feed.next()  # the first event says that the server watches
        return ServerWatcher(feed)

    def disk(self) -> dict[str, int]:
        """Measure the workspace's file system: total and free, in bytes and in files."""
        answer: dict[str, int] = self._box.call("GET", "/disk")
        return answer


class ServerReader:
    """A file that is being read from a sandbox."""

    def __init__(self, box: ServerSandbox, path: str, offset: int, length: int | None) -> None:
        self._box, self._path, self._offset, self._length = box, path, offset, length
        self._answer: Answer | None = None
        self.is_over = False

    def begin(self) -> int:
        """Open the file and return its size."""
        self._box.open()
        path = self._box.path(f"/files/{shapes.quoted(self._path)}")
        wanted = "" if self._length is None else str(self._offset + max(self._length, 1) - 1)
        header = f"Range: bytes={self._offset}-{wanted}\r\n" if self._offset or wanted else ""
        answer = self._box.server.ask("GET", path, accept="*/*", headers=header, fine=_NOTHING_THERE)
        self._answer = answer
        total = answer.headers.get("content-range", "").rpartition("/")[2]
        if answer.status == _NOTHING_THERE or self._length == 0:
            self._box.server.read(answer)
            self.is_over = True
        return int(total or answer.headers.get("content-length", "0"))

    def next(self) -> bytes:
        """Wait for the next piece; empty at the end, and after `close`."""
        if self.is_over:
            return b""
        assert self._answer is not None
        try:
            piece = self._answer.piece(60)
        except (Broken, OSError) as problem:
            self.close()
            raise self._box.server.lost(problem) from problem
        if not piece:
            self.is_over = True
            self._box.server.done_with(self._answer)
        return piece

    def close(self) -> None:
        """Stop reading."""
        if not self.is_over:
            self.is_over = True
            if self._answer is not None:
                self._answer.connection.close()

    def __del__(self) -> None:
        if self._answer is not None and not self.is_over:
            self._answer.connection.close()


class ServerWriter:
    """A file that is being written into a sandbox."""

    def __init__(self, box: ServerSandbox, target: str) -> None:
        self._box, self._target = box, target
        self._upload: Upload | None = None
        self.is_over = False

    def begin(self) -> None:
        """Begin the request, unless that was done already."""
        if self._upload is None:
            self._box.open()
            self._upload = self._box.server.upload("PUT", self._box.path(self._target))

    def write(self, data: Data) -> None:
        """Send a piece."""
        assert self._upload is not None
        for start in range(0, len(data), _PIECE):
            try:
                self._upload.send(data[start : start + _PIECE])
            except BaseException:
                self.abort()
                raise

    def finish(self) -> Entry:
        """Put the file in its place, and return its entry."""
        assert self._upload is not None
        try:
            answer = self._upload.finish()
        except BaseException:
            self.abort()
            raise
        self.is_over = True
        return shapes.entry(answer)

    def abort(self) -> None:
        """Discard the pieces, unless the file is finished."""
        if not self.is_over:
            self.is_over = True
            if self._upload is not None:
                self._upload.close()

    def __del__(self) -> None:
        if self._upload is not None and not self.is_over:
            self._upload.close()


class ServerWatcher:
    """Changes in a folder."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def next_change(self, timeout: float | None) -> Change | None:
        """Wait for the next change; None if there is none in time, or when the sandbox has ended."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            try:
                event = self._feed.next(None if deadline is None else max(deadline - monotonic(), 0))
            except (TimeoutError, SandboxFailed):
                return None
            if event is None:
                return None
            if event[0] == "change":
                return Change(event[1]["kind"], event[1]["path"])

    def drain(self) -> list[Change]:
        """Return all changes that the server has sent and that were not returned yet."""
        changes = []
        while (change := self.next_change(0)) is not None:
            changes.append(change)
        return changes

    def close(self) -> None:
        """Stop watching."""
        self._feed.close()

    def __del__(self) -> None:
        self._feed.close()


def _target(path: str, mode: int | None, append: bool, expected: str | None = None) -> str:
    options = [f"mode={mode:o}"] if mode is not None else []
    if append:
        options.append("append=true")
    if expected is not None:
        options.append(f"expected={shapes.quoted(expected)}")
    return f"/files/{shapes.quoted(path)}{'?' if options else ''}{'&'.join(options)}"
