"""Files in a sandbox: every operation is carried out by the agent, inside the wall."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from time import monotonic

from cloche.engine.checks import checked_data
from cloche.engine.checks import checked_path as _checked
from cloche.engine.link import NONSENSE, Lost, Operation
from cloche.errors import FileMissing, FileProblem, Gone, InvalidRun, SandboxFailed
from cloche.model.files import Change, Entry
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.box import AsyncBox

ANSWER_S = 60.0  # for an agent to answer; files are in memory, so this is for ever
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
        """Write a file; folders on the way are made."""
        rest = memoryview(checked_data("data", data))
        if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
            raise InvalidRun(f"mode must be between 0o000 and 0o777, not {mode!r:.100}.")
        request = {"method": "write", "path": _checked(path), "mode": mode, "append": append}
        operation = await self._ask(request)
        try:
            while rest:
                if operation.input_credit > 0:
                    part = bytes(rest[: min(frames.CHUNK, operation.input_credit)])
                    operation.input_credit -= len(part)
                    rest = rest[len(part) :]
                    await self._box.tell(frames.encode(operation.number, frames.INPUT, part))
                else:
                    await self._answer(operation, path)
            await self._box.tell(frames.encode(operation.number, frames.INPUT_END))
            return _entry((await self._reply(operation, path)).get("entry"))
        finally:
            self._box.link.close(operation)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The contents of a file, or a part of them."""
        for name, value in (("offset", offset), ("length", 0 if length is None else length)):
            if type(value) is not int or not 0 <= value < 1 << 62:
                raise InvalidRun(f"{name} must be a whole number of bytes, not {value!r:.100}.")
        request = {"method": "read", "path": _checked(path), "offset": offset, "length": length}
        operation = await self._ask(request)
        parts: list[bytes] = []
        total = 0
        try:
            while True:
                kind, payload = await self._answer(operation, path)
                if kind == frames.DATA:
                    parts.append(payload)
                    total += len(payload)
                    if total > MAX_READ:
                        await self._box.tell(frames.encode(operation.number, frames.CANCEL))
                        raise FileProblem(
                            f"{path} is larger than {MAX_READ} bytes.",
                            "Read it in parts, with offset= and length=.",
                            27,
                        )
                elif kind == frames.REPLY:
                    return b"".join(parts)
        finally:
            self._box.link.close(operation)

    async def read_text(self, path: str) -> str:
        """The contents of a file as text; what is not UTF-8 shows as replacement characters."""
        return (await self.read(path)).decode(errors="replace")

    async def list(self, path: str = ".", *, depth: int = 1) -> list[Entry]:
        """What is in a folder, and in the folders below it when `depth` says so."""
        if type(depth) is not int or depth < 1:
            raise InvalidRun("depth must be 1 or more.")
        operation = await self._ask({"method": "list", "path": _checked(path), "depth": depth})
        entries: list[Entry] = []
        try:
            while True:
                kind, payload = await self._answer(operation, path)
                if kind in (frames.EVENT, frames.REPLY):
                    entries += _entries(_told(payload).get("entries"))
                if kind == frames.REPLY:
                    return entries
        finally:
            self._box.link.close(operation)

    async def stat(self, path: str) -> Entry:
        """What is at a path; a link is told as a link."""
        return _entry((await self.call({"method": "stat", "path": _checked(path)}, path)).get("entry"))

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
        return _entry((await self.call(request, path)).get("entry"))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self.call({"method": "remove", "path": _checked(path)}, path)

    async def watch(self, path: str = ".", *, recursive: bool = False) -> AsyncWatch:
        """Be told what changes in a folder: iterate over what this returns, and close it."""
        operation = await self._ask({"method": "watch", "path": _checked(path), "recursive": recursive})
        kind, _ = await self._answer(operation, path)
        if kind != frames.STARTED:
            raise _nonsense()
        return AsyncWatch(self._box, operation)

    async def disk(self) -> dict[str, int]:
        """The workspace's file system: total and free, in bytes and in files."""
        told = await self.call({"method": "disk"}, "/sandbox")
        try:
            return {name: int(told[name]) for name in ("total", "free", "inodes", "inodes_free")}
        except NONSENSE as problem:
            raise _nonsense() from problem

    async def _ask(self, request: dict[str, Any]) -> Operation:
        await self._box.open()
        operation = self._box.link.open()
        await self._box.tell(frames.encode_json(operation.number, frames.CALL, request))
        return operation

    async def call(self, request: dict[str, Any], path: str) -> dict[str, Any]:
        """Ask the agent for something that is answered once."""
        operation = await self._ask(request)
        try:
            return await self._reply(operation, path)
        finally:
            self._box.link.close(operation)

    async def _reply(self, operation: Operation, path: str) -> dict[str, Any]:
        while True:
            kind, payload = await self._answer(operation, path)
            if kind == frames.REPLY:
                return _told(payload)

    async def _answer(self, operation: Operation, path: str) -> tuple[int, bytes]:
        try:
            kind, payload = await self._box.link.receive(operation, monotonic() + ANSWER_S)
        except (Lost, TimeoutError) as problem:
            await self._box.explain_loss(problem)
            raise
        if kind == frames.FAIL:
            raise _problem(_told(payload), path)
        return kind, payload


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
                self._told.extend(_changes(_told(payload).get("changes")))
            if kind in (frames.REPLY, frames.FAIL):
                self._open = False
        return None

    async def close(self) -> None:
        """Stop watching."""
        if self._open:
            self._open = False
            self._told.clear()
            self._box.link.close(self._operation)
            try:
                await self._box.tell(frames.encode(self._operation.number, frames.CANCEL))
            except Gone:
                pass

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


def _told(payload: bytes) -> dict[str, Any]:
    try:
        return frames.decode_json(payload)
    except frames.Garbled as problem:
        raise _nonsense() from problem


def _changes(told: Any) -> list[Change]:
    try:
        return [Change(str(change["kind"]), str(change["path"])) for change in told]
    except NONSENSE as problem:
        raise _nonsense() from problem


def _entries(told: Any) -> list[Entry]:
    if not isinstance(told, list):
        raise _nonsense()
    return [_entry(entry) for entry in told]


def _entry(told: Any) -> Entry:
    try:
        target = told.get("target")
        return Entry(
            path=str(told["path"]),
            kind=str(told["kind"]),
            size=int(told["size"]),
            mode=int(told["mode"]),
            modified=float(told["modified"]),
            target=None if target is None else str(target),
        )
    except NONSENSE as problem:
        raise _nonsense() from problem


def _nonsense() -> SandboxFailed:
    return SandboxFailed("The sandbox's answer makes no sense.", hint="Make a new one.")


def _problem(told: dict[str, Any], path: str) -> Exception:
    number = told.get("errno")
    message = f"{path}: {str(told.get('message', 'failed'))[:1000]}"
    if number == 2:
        return FileMissing(message)
    hint = "Delete files or allow more with disk=." if number == 28 else ""
    return FileProblem(message, hint, number if isinstance(number, int) else 0)
