"""The verbs about files in a sandbox.  Every path is resolved inside the wall, never on this host."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableSequence, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cloche.engine import file_details
from cloche.model.files import Change, Details, Entry, Listing
from cloche.policy.caller import Caller
from cloche.policy.meter import Meter
from cloche.sandbox.files import AsyncWatch
from cloche.sandbox.transfers import AsyncReading
from cloche.service.live import LiveSandbox
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.policy.keys import Keyring
    from cloche.service.lifecycle import Lifecycle


class OpenFile:
    """A file that is being read.  The sandbox is not idle while it is open."""

    def __init__(self, live: LiveSandbox, reading: AsyncReading, meter: Meter) -> None:
        self._live, self._reading, self._meter = live, reading, meter
        self._open = AsyncExitStack()

    @property
    def size(self) -> int:
        """The size of the whole file."""
        return self._reading.size

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._live.used(saves=False))
        await self._open.enter_async_context(self._reading)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._open.__aexit__(kind, problem, traceback)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._reading:
            self._meter.move(len(chunk))
            yield chunk

    async def read(self) -> bytes:
        """All that is left to read."""
        return b"".join([chunk async for chunk in self])

    async def close(self) -> None:
        """Close a file that was opened and never entered."""
        await self._reading.close()


class FileWatch:
    """A folder whose changes are reported."""

    def __init__(self, live: LiveSandbox, watch: AsyncWatch) -> None:
        self._live, self._watch = live, watch

    @property
    def sandbox_ended(self) -> bool:
        return self._live.feed.over

    async def next_change(self, timeout: float | None = None) -> Change | None:
        """Wait for a change; None when none came in time, or when the sandbox ended."""
        return await self._watch.next_change(timeout)

    async def drain(self) -> Sequence[Change]:
        """The changes that have come since the last call."""
        return await self._watch.drain()

    async def close(self) -> None:
        await self._watch.close()

    aclose = close  # for `contextlib.aclosing`


class Files:
    """Reads, writes, lists, moves, removes and watches files."""

    def __init__(self, lifecycle: Lifecycle, keyring: Keyring) -> None:
        self._lifecycle, self._keyring = lifecycle, keyring

    @verb("read")
    async def stat(self, caller: Caller, sandbox: str, path: str) -> Entry:
        live = await self._lifecycle.find(caller, sandbox)
        return await live.box.files.stat(path)

    @verb("read")
    async def describe(self, caller: Caller, sandbox: str, path: str) -> Details:
        """A path with owner, attributes, and the end of a link."""
        live = await self._lifecycle.find(caller, sandbox)
        return await file_details.describe(live.box, path)

    @verb("read")
    async def list(self, caller: Caller, sandbox: str, path: str, *, depth: int = 1) -> Listing:
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used(saves=False) as box, live.listing:
            return await box.files.list(path, depth=depth)

    @verb("read")
    async def describe_all(self, caller: Caller, sandbox: str, path: str, *, depth: int) -> MutableSequence[Details]:
        """The entries of a folder, each as `describe` has it."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.listing:
            return await file_details.listing(live.box, path, depth)

    @verb("read")
    async def disk(self, caller: Caller, sandbox: str) -> dict[str, int]:
        """The size and the use of the workspace's file system."""
        live = await self._lifecycle.find(caller, sandbox)
        return await live.box.files.disk()

    @verb("read")
    async def open(
        self, caller: Caller, sandbox: str, path: str, *, offset: int = 0, length: int | None = None
    ) -> OpenFile:
        """Open a file.  Problems are raised here, before a door has begun to answer."""
        live = await self._lifecycle.find(caller, sandbox)
        meter = self._keyring.meter(caller)
        meter.check_day()
        reading = await live.box.files.read_stream(path, offset=offset, length=length).begin()
        return OpenFile(live, reading, meter)

    @verb("read")
    async def watch(self, caller: Caller, sandbox: str, path: str, *, recursive: bool = False) -> FileWatch:
        live = await self._lifecycle.find(caller, sandbox)
        return FileWatch(live, await live.box.files.watch(path, recursive=recursive))

    @verb("run")
    async def write(
        self,
        caller: Caller,
        sandbox: str,
        path: str,
        chunks: AsyncIterator[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: dict[str, str] | None = None,
        expected: str | None = None,
        saves: bool = True,
    ) -> Entry:
        """Write a file, all or nothing unless `in_place`.  A batch of writes saves once, at its end (`save`).

        With `expected`, the file must still have the contents of this digest (`AsyncFiles.write_stream`).
        """
        live = await self._lifecycle.find(caller, sandbox)
        meter = self._keyring.meter(caller)
        meter.check_day()
        async with (
            live.used(saves=saves) as box,
            box.files.write_stream(
                path, mode=mode, append=append, in_place=in_place, attributes=attributes, expected=expected
            ) as writing,
        ):
            async for chunk in chunks:
                if chunk:
                    meter.move(len(chunk))
                    await writing.write(chunk)
            entry = await writing.finish()
        live.happened("file.write", {"path": entry.path, "size": entry.size})
        return entry

    @verb("run")
    async def save(self, caller: Caller, sandbox: str) -> None:
        """Save the files of a persistent sandbox now."""
        live = await self._lifecycle.find(caller, sandbox)
        await live.save()

    @verb("run")
    async def remove(self, caller: Caller, sandbox: str, path: str) -> None:
        """Remove a file, or a folder and everything below it."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            await box.files.remove(path)
        live.happened("file.remove", {"path": path})

    @verb("run")
    async def rename(self, caller: Caller, sandbox: str, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder; the entry at its new place."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            moved = await box.files.rename(path, new_path)
        live.happened("file.rename", {"path": path, "new_path": moved.path})
        return moved

    @verb("run")
    async def rename_described(self, caller: Caller, sandbox: str, path: str, new_path: str) -> Details:
        """The same; the new entry as `describe` has it."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            moved = await file_details.move(box, path, new_path)
        live.happened("file.rename", {"path": path, "new_path": moved.path})
        return moved

    @verb("run")
    async def make_folder(self, caller: Caller, sandbox: str, path: str) -> tuple[bool, Details]:
        """Make a folder and its parents; whether it is new, and the folder."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            return await file_details.make_folder(box, path)

    @verb("run")
    async def join(self, caller: Caller, sandbox: str, paths: Sequence[str], target: str) -> None:
        """Write several files into one, in order, and remove them."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            async with box.files.write_stream(target) as writing:
                for path in paths:
                    async with box.files.read_stream(path) as reading:
                        async for chunk in reading:
                            await writing.write(chunk)
            for path in dict.fromkeys(paths):
                await box.files.remove(path)
