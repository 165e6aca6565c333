"""`box.files`: the files of a sandbox."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche.errors import FileMissing, FileProblem
from cloche.model.files import Change, Entry, Listing
from cloche.sandbox.checks import check_range, checked_data, checked_depth, checked_env, checked_mode, checked_path
from cloche.sandbox.transfers import AsyncReading, AsyncWriting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.sandbox.backend import AsyncFilesBackend, AsyncWatcher
    from cloche.sandbox.checks import Data

MAX_READ = 1 << 30  # bytes of one `read`; needed because a sparse file can claim any size


class AsyncFiles:
    """`box.files`: the sandbox's files.  Relative paths start at /sandbox."""

    def __init__(self, backend: AsyncFilesBackend) -> None:
        self._backend = backend

    async def write(self, path: str, data: str | Data, *, mode: int | None = None, append: bool = False) -> Entry:
        """Write a file, and make missing folders.  The file is replaced as a whole, or not at all."""
        return await self._backend.write(checked_path(path), checked_data("data", data), checked_mode(mode), append)

    def write_stream(
        self,
        path: str,
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: Mapping[str, str] | None = None,
        expected: str | None = None,
    ) -> AsyncWriting:
        """Write a file piece by piece.  Programs see none of it until it is finished, except with `append`.

        With `in_place` programs see the file grow, and its inode stays the same.  `attributes` replace its xattrs in
        the `user` namespace.  Servers support neither of these two.

        With `expected`, a SHA-256 digest in hexadecimal, the file is written only if it still has these contents; with
        an empty one only if there is no file.  Otherwise `FileProblem` is raised, with errno ESTALE.
        """
        given = None if attributes is None else checked_env(attributes)
        writer = self._backend.writer(checked_path(path), checked_mode(mode), append, in_place, given, expected)
        return AsyncWriting(writer)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file, or a part of it."""
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
        """Read a file of any size, piece by piece: iterate over the returned `Reading`."""
        check_range(offset, length)
        return AsyncReading(self._backend.reader(checked_path(path), offset, length))

    async def read_text(self, path: str) -> str:
        """Read a file as text; bytes that are not UTF-8 become replacement characters."""
        return (await self.read(path)).decode(errors="replace")

    async def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """List the entries of a folder and, with `depth`, of the folders below it."""
        return await self._backend.list(checked_path(path), checked_depth(depth))

    async def stat(self, path: str) -> Entry:
        """Describe the entry at a path; links are not followed."""
        return await self._backend.stat(checked_path(path))

    async def exists(self, path: str) -> bool:
        """Return whether this path exists."""
        try:
            await self.stat(path)
        except FileMissing:
            return False
        return True

    async def mkdir(self, path: str) -> bool:
        """Make a folder and its parents; return False if it existed already."""
        return await self._backend.mkdir(checked_path(path))

    async def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        return await self._backend.rename(checked_path(path), checked_path(new_path))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        await self._backend.remove(checked_path(path))

    async def watch(self, path: str = ".", *, recursive: bool = False) -> AsyncWatch:
        """Watch a folder for changes: iterate over the returned watch, and close it."""
        return AsyncWatch(await self._backend.watch(checked_path(path), recursive))

    async def disk(self) -> dict[str, int]:
        """Measure the workspace's file system: total and free, in bytes and in files."""
        return await self._backend.disk()


class AsyncWatch:
    """Changes in a folder, as they happen."""

    def __init__(self, watcher: AsyncWatcher) -> None:
        self._watcher = watcher

    async def next_change(self, timeout: float | None = None) -> Change | None:
        """Wait for the next change; None if there is none in time, or when the sandbox has ended."""
        return await self._watcher.next_change(timeout)

    async def drain(self) -> list[Change]:
        """Return all changes so far that were not returned yet."""
        return await self._watcher.drain()

    async def close(self) -> None:
        """Stop watching."""
        await self._watcher.close()

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
