# Generated from src/cloche/engine/files.py by scripts/blocking.py: edit that file instead.
"""Files of a sandbox of this host: the agent carries out every operation, inside the wall."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from time import monotonic

from cloche.blocking.engine import agent_requests
from cloche.blocking.engine.link import NONSENSE, Lost, Operation
from cloche.blocking.engine.transfers import HostReader, HostWriter, entry
from cloche.blocking.io.tasks import pause
from cloche.model.files import Change, Entry, Listing
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.sandbox.checks import Data


class HostFiles:
    """The files of one sandbox; relative paths start at /sandbox."""

    def __init__(self, box: HostSandbox) -> None:
        self._box = box

    def write(self, path: str, data: Data, mode: int | None, append: bool) -> Entry:
        """Write a file, and make missing folders."""
        writer = self.writer(path, mode, append)
        try:
            writer.begin()
            writer.write(data)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def writer(
        self,
        path: str,
        mode: int | None,
        append: bool,
        in_place: bool = False,
        attributes: dict[str, str] | None = None,
        expected: str | None = None,
    ) -> HostWriter:
        """Return a writer that writes a file piece by piece."""
        request: dict[str, Any] = {"method": "write", "path": path, "mode": mode, "append": append}
        if in_place:
            request["in_place"] = True
        if attributes is not None:
            request["attributes"] = attributes
        if expected is not None:
            request["expected"] = expected
        return HostWriter(self._box, request)

    def read(self, path: str, length: int | None = None) -> bytes:
        """Read the contents of a file, or their beginning."""
        reader = self.reader(path, 0, length)
        parts = []
        try:
            reader.begin()
            while piece := reader.next():
                parts.append(piece)
        finally:
            reader.close()
        return b"".join(parts)

    def reader(self, path: str, offset: int, length: int | None) -> HostReader:
        """Return a reader that reads a file piece by piece."""
        return HostReader(self._box, {"method": "read", "path": path, "offset": offset, "length": length})

    def list(self, path: str, depth: int = 1) -> Listing:
        """List the entries of a folder, and with `depth` those of the folders below it."""
        operation = agent_requests.ask(self._box, {"method": "list", "path": path, "depth": depth})
        listing = Listing()
        try:
            while True:
                kind, payload = agent_requests.answer(self._box, operation, path)
                if kind in (frames.EVENT, frames.REPLY):
                    fields = agent_requests.decoded(payload)
                    listing += _entries(fields.get("entries"))
                    listing.truncated = bool(fields.get("truncated"))
                if kind == frames.REPLY:
                    return listing
        finally:
            self._box.link.close(operation)

    def stat(self, path: str) -> Entry:
        """Describe the entry at a path."""
        return entry((self.call({"method": "stat", "path": path}, path)).get("entry"))

    def mkdir(self, path: str) -> bool:
        """Make a folder and its parents; return False if it existed already."""
        return bool((self.call({"method": "mkdir", "path": path}, path)).get("created"))

    def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        return entry((self.call({"method": "rename", "path": path, "new_path": new_path}, path)).get("entry"))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        self.call({"method": "remove", "path": path}, path)

    def watch(self, path: str, recursive: bool) -> HostWatcher:
        """Watch a folder."""
        operation = agent_requests.ask(self._box, {"method": "watch", "path": path, "recursive": recursive})
        kind, _ = agent_requests.answer(self._box, operation, path)
        if kind != frames.STARTED:
            raise agent_requests.nonsense()
        return HostWatcher(self._box, operation)

    def disk(self) -> dict[str, int]:
        """Measure the workspace's file system: total and free, in bytes and in files."""
        fields = self.call({"method": "disk"}, "/sandbox")
        try:
            return {name: int(fields[name]) for name in ("total", "free", "inodes", "inodes_free")}
        except NONSENSE as problem:
            raise agent_requests.nonsense() from problem

    def call(self, request: dict[str, Any], about: str) -> dict[str, Any]:
        """Send the agent a request that has a single answer; errors begin with `about`."""
        return agent_requests.call(self._box, request, about)


class HostWatcher:
    """Changes in a folder, as they happen."""

    def __init__(self, box: HostSandbox, operation: Operation) -> None:
        self._box, self._operation = box, operation
        self._open = True
        self._waiting: deque[Change] = deque()

    def next_change(self, timeout: float | None) -> Change | None:
        """Wait for the next change; None if there is none in time, or when the sandbox has ended."""
        deadline = None if timeout is None else monotonic() + timeout
        while self._open or self._waiting:
            if self._waiting:
                change: Change = self._waiting.popleft()
                return change
            try:
                kind, payload = self._box.link.receive(self._operation, deadline)
            except (TimeoutError, Lost):
                return None
            if kind == frames.EVENT:
                self._waiting.extend(_changes(agent_requests.decoded(payload).get("changes")))
            if kind in (frames.REPLY, frames.FAIL):
                self._open = False
        return None

    def drain(self) -> list[Change]:
        """Return all changes so far that were not returned yet."""
        self._box.send(frames.encode(self._operation.number, frames.INPUT))
        is_all = not self._open
        while not is_all:
            kind, payload = agent_requests.answer(self._box, self._operation, "watch")
            if kind == frames.EVENT:
                fields = agent_requests.decoded(payload)
                self._waiting.extend(_changes(fields.get("changes")))
                is_all = bool(fields.get("all"))
                pause(0)  # the next report may be here already, and others wait for the loop
            else:
                self._open, is_all = False, True
        changes = [*self._waiting]
        self._waiting.clear()
        return changes

    def close(self) -> None:
        """Stop watching."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._box.link.close(self._operation)
            agent_requests.cancel(self._box, self._operation)


def _changes(changes: Any) -> list[Change]:
    try:
        return [_change(str(change["kind"]), str(change["path"])) for change in changes]
    except NONSENSE as problem:
        raise agent_requests.nonsense() from problem


def _change(kind: str, path: str) -> Change:
    return Change("rename", path, arrived=True) if kind == "arrive" else Change(kind, path)


def _entries(entries: Any) -> list[Entry]:
    if not isinstance(entries, list):
        raise agent_requests.nonsense()
    return [entry(each) for each in entries]
