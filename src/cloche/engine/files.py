"""Files in a sandbox: every operation is carried out by the agent, inside the wall."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from _collections_abc import Mapping
from time import monotonic

from cloche.engine import calls
from cloche.engine.link import NONSENSE, Lost, Operation
from cloche.engine.transfers import AsyncReading, AsyncWriting, entry
from cloche.errors import FileMissing, FileProblem, InvalidRun
from cloche.model.files import Change, Entry, Listing
from cloche.sandbox.checks import checked_data, checked_env
from cloche.sandbox.checks import checked_path as _checked
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.box import AsyncBox

MAX_READ = 1 << 30  # bytes of one `read`: a sparse file can claim any size


class AsyncFiles:
    """`box.files`: paths are inside the sandbox; relative ones start at /sandbox."""

    def __init__(self, box: AsyncBox) -> None:
        self._box = box

    async def write(
        self,
        path: str,
        data: str | bytes | bytearray | memoryview,
        *,
        mode: int | None = None,
        append: bool = False,
    ) -> Entry:
        """Write a file; folders on the way are made.  It is replaced as a whole, or stays as it was."""
        checked = checked_data("data", data)
        async with self.write_stream(path, mode=mode, append=append) as writing:
            await writing.write(checked)
            return await writing.finish()

    def write_stream(
        self,
        path: str,
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> AsyncWriting:
        """Write a file piece by piece; nobody sees any of it before it is finished, unless it is appended to.

        With `in_place` everybody sees it grow, and it stays the same file.  `attributes` are what it has as xattrs in
        the `user` namespace from then on, instead of those that it had.
        """
        if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
            raise InvalidRun(f"mode must be between 0o000 and 0o777, not {mode!r:.100}.")
        request: dict[str, Any] = {"method": "write", "path": _checked(path), "mode": mode, "append": append}
        if in_place:
            request["in_place"] = True
        if attributes is not None:
            request["attributes"] = checked_env(attributes)
        return AsyncWriting(self._box, request)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The contents of a file, or a part of them."""
        parts: list[bytes] = []
        total = 0
        async with self.read_stream(path, offset=offset, length=length) as reading:
            async for part in reading:
                parts.append(part)
                total += len(part)
                if total > MAX_READ:
                    raise FileProblem(f"{path} is larger than {MAX_READ} bytes.", "Read it with read_stream.", 27)
        return b"".join(parts)

    def read_stream(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncReading:
        """Read a file piece by piece, however large it is; iterate over what this returns."""
        for name, value in (("offset", offset), ("length", 0 if length is None else length)):
            if type(value) is not int or not 0 <= value < 1 << 62:
                raise InvalidRun(f"{name} must be a whole number of bytes, not {value!r:.100}.")
        request = {"method": "read", "path": _checked(path), "offset": offset, "length": length}
        return AsyncReading(self._box, request)

    async def read_text(self, path: str) -> str:
        """The contents of a file as text; what is not UTF-8 shows as replacement characters."""
        return (await self.read(path)).decode(errors="replace")

    async def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """What is in a folder, and in the folders below it when `depth` says so."""
        if type(depth) is not int or depth < 1:
            raise InvalidRun("depth must be 1 or more.")
        operation = await calls.ask(self._box, {"method": "list", "path": _checked(path), "depth": depth})
        listing = Listing()
        try:
            while True:
                kind, payload = await calls.answer(self._box, operation, path)
                if kind in (frames.EVENT, frames.REPLY):
                    told = calls.told(payload)
                    listing += _entries(told.get("entries"))
                    listing.truncated = bool(told.get("truncated"))
                if kind == frames.REPLY:
                    return listing
        finally:
            self._box.link.close(operation)

    async def stat(self, path: str) -> Entry:
        """What is at a path; a link is told as a link."""
        return entry((await self.call({"method": "stat", "path": _checked(path)}, path)).get("entry"))

    async def exists(self, path: str) -> bool:
        """Is there something at this path?"""
        try:
            await self.stat(path)
        except FileMissing:
            return False
        return True

    async def mkdir(self, path: str) -> bool:
        """Make a folder and those on the way; False when it was there."""
        return bool((await self.call({"method": "mkdir", "path": _checked(path)}, path)).get("created"))

    async def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        request = {"method": "rename", "path": _checked(path), "new_path": _checked(new_path)}
        return entry((await self.call(request, path)).get("entry"))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self.call({"method": "remove", "path": _checked(path)}, path)

    async def watch(self, path: str = ".", *, recursive: bool = False) -> AsyncWatch:
        """Be told what changes in a folder: iterate over what this returns, and close it."""
        operation = await calls.ask(self._box, {"method": "watch", "path": _checked(path), "recursive": recursive})
        kind, _ = await calls.answer(self._box, operation, path)
        if kind != frames.STARTED:
            raise calls.nonsense()
        return AsyncWatch(self._box, operation)

    async def disk(self) -> dict[str, int]:
        """The workspace's file system: total and free, in bytes and in files."""
        told = await self.call({"method": "disk"}, "/sandbox")
        try:
            return {name: int(told[name]) for name in ("total", "free", "inodes", "inodes_free")}
        except NONSENSE as problem:
            raise calls.nonsense() from problem

    async def call(self, request: dict[str, Any], path: str) -> dict[str, Any]:
        """Ask the agent for something that is answered once."""
        operation = await calls.ask(self._box, request)
        try:
            return await calls.reply(self._box, operation, path)
        finally:
            self._box.link.close(operation)


class AsyncWatch:
    """Changes in a folder, as they happen."""

    def __init__(self, box: AsyncBox, operation: Operation) -> None:
        self._box, self._operation = box, operation
        self._open = True
        self._told: deque[Change] = deque()

    async def next_change(self, timeout: float | None = None) -> Change | None:
        """The next change; None when there is none in time, or the sandbox has ended."""
        deadline = None if timeout is None else monotonic() + timeout
        while self._open or self._told:
            if self._told:
                change: Change = self._told.popleft()
                return change
            try:
                kind, payload = await self._box.link.receive(self._operation, deadline)
            except (TimeoutError, Lost):
                return None
            if kind == frames.EVENT:
                self._told.extend(_changes(calls.told(payload).get("changes")))
            if kind in (frames.REPLY, frames.FAIL):
                self._open = False
        return None

    async def drain(self) -> list[Change]:
        """All that has happened by now and that nobody was told of."""
        await self._box.tell(frames.encode(self._operation.number, frames.INPUT))
        is_all = not self._open
        while not is_all:
            kind, payload = await calls.answer(self._box, self._operation, "watch")
            if kind == frames.EVENT:
                told = calls.told(payload)
                self._told.extend(_changes(told.get("changes")))
                is_all = bool(told.get("all"))
            else:
                self._open, is_all = False, True
        changes = [*self._told]
        self._told.clear()
        return changes

    async def close(self) -> None:
        """Stop watching."""
        if self._open:
            self._open = False
            self._told.clear()
            self._box.link.close(self._operation)
            await calls.cancel(self._box, self._operation)

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> Change:
        change = await self.next_change()
        if change is None:
            raise StopAsyncIteration
        return change

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _changes(told: Any) -> list[Change]:
    try:
        return [_change(str(change["kind"]), str(change["path"])) for change in told]
    except NONSENSE as problem:
        raise calls.nonsense() from problem


def _change(kind: str, path: str) -> Change:
    return Change("rename", path, arrived=True) if kind == "arrive" else Change(kind, path)


def _entries(told: Any) -> list[Entry]:
    if not isinstance(told, list):
        raise calls.nonsense()
    return [entry(each) for each in told]
