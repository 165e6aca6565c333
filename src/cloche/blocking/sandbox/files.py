# Generated from src/cloche/sandbox/files.py by scripts/blocking.py: edit that file instead.
"""`box.files`: the files of a sandbox."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche.blocking.sandbox.transfers import Reading, Writing
from cloche.errors import FileMissing, FileProblem
from cloche.model.files import Change, Entry, Listing
from cloche.sandbox.checks import check_range, checked_data, checked_depth, checked_env, checked_mode, checked_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import FilesBackend, Watcher
    from cloche.sandbox.checks import Data

MAX_READ = 1 << 30  # bytes of one `read`: a sparse file can claim any size


class Files:
    """`box.files`: paths are inside the sandbox; relative ones start at /sandbox."""

    def __init__(self, backend: FilesBackend) -> None:
        self._backend = backend

    def write(self, path: str, data: str | Data, *, mode: int | None = None, append: bool = False) -> Entry:
        """Write a file, and make the folders on the way.  It is replaced as a whole, or stays as it was."""
        return self._backend.write(checked_path(path), checked_data("data", data), checked_mode(mode), append)

    def write_stream(
        self,
        path: str,
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> Writing:
        """Write a file piece by piece; nobody sees any of it before it is finished, unless it is appended to.

        With `in_place` everybody sees it grow, and it stays the same file.  `attributes` become its xattrs in the
        `user` namespace, instead of those that it had.  A server takes neither of these two.
        """
        given = None if attributes is None else checked_env(attributes)
        return Writing(self._backend.writer(checked_path(path), checked_mode(mode), append, in_place, given))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The contents of a file, or a part of them."""
        parts: list[bytes] = []
        total = 0
        with self.read_stream(path, offset=offset, length=length) as reading:
            for part in reading:
                parts.append(part)
                total += len(part)
                if total > MAX_READ:
                    raise FileProblem(f"{path} is larger than {MAX_READ} bytes.", "Read it with read_stream.", 27)
        return b"".join(parts)

    def read_stream(self, path: str, *, offset: int = 0, length: int | None = None) -> Reading:
        """Read a file piece by piece, however large it is: iterate over the `Reading` that this returns."""
        check_range(offset, length)
        return Reading(self._backend.reader(checked_path(path), offset, length))

    def read_text(self, path: str) -> str:
        """The contents of a file as text; bytes that are not UTF-8 show as replacement characters."""
        return (self.read(path)).decode(errors="replace")

    def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """The entries of a folder, and with `depth` those of the folders below it."""
        return self._backend.list(checked_path(path), checked_depth(depth))

    def stat(self, path: str) -> Entry:
        """The entry at a path; a link is described as a link."""
        return self._backend.stat(checked_path(path))

    def exists(self, path: str) -> bool:
        """Is there something at this path?"""
        try:
            self.stat(path)
        except FileMissing:
            return False
        return True

    def mkdir(self, path: str) -> bool:
        """Make a folder and those on the way; False when it was there."""
        return self._backend.mkdir(checked_path(path))

    def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        return self._backend.rename(checked_path(path), checked_path(new_path))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        self._backend.remove(checked_path(path))

    def watch(self, path: str = ".", *, recursive: bool = False) -> Watch:
        """Watch a folder for changes: iterate over the watch that this returns, and close it."""
        return Watch(self._backend.watch(checked_path(path), recursive))

    def disk(self) -> dict[str, int]:
        """The workspace's file system: total and free, in bytes and in files."""
        return self._backend.disk()


class Watch:
    """Changes in a folder, as they happen."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def next_change(self, timeout: float | None = None) -> Change | None:
        """The next change; None when there is none in time, or the sandbox has ended."""
        return self._watcher.next_change(timeout)

    def drain(self) -> list[Change]:
        """All changes that have happened by now and were not returned yet."""
        return self._watcher.drain()

    def close(self) -> None:
        """Stop watching."""
        self._watcher.close()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        change = self.next_change()
        if change is None:
            raise StopIteration
        return change

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
