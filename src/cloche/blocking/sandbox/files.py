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

MAX_READ = 1 << 30  # bytes of one `read`; needed because a sparse file can claim any size


class Files:
    """`box.files`: the sandbox's files.  Relative paths start at /sandbox."""

    def __init__(self, backend: FilesBackend) -> None:
        self._backend = backend

    def write(self, path: str, data: str | Data, *, mode: int | None = None, append: bool = False) -> Entry:
        """Write a file, and make missing folders.  The file is replaced as a whole, or not at all."""
        return self._backend.write(checked_path(path), checked_data("data", data), checked_mode(mode), append)

    def write_stream(
        self,
        path: str,
        *,
        mode: int | None = None,
        append: bool = False,
        in_place: bool = False,
        attributes: Mapping[str, str] | None = None,
        expected: str | None = None,
    ) -> Writing:
        """Write a file piece by piece.  Programs see none of it until it is finished, except with `append`.

        With `in_place` programs see the file grow, and its inode stays the same.  `attributes` replace its xattrs in
        the `user` namespace.  Servers support neither of these two.

        With `expected`, a SHA-256 digest in hexadecimal, the file is written only if it still has these contents; with
        an empty one only if there is no file.  Otherwise `FileProblem` is raised, with errno ESTALE.
        """
        given = None if attributes is None else checked_env(attributes)
        writer = self._backend.writer(checked_path(path), checked_mode(mode), append, in_place, given, expected)
        return Writing(writer)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file, or a part of it."""
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
        """Read a file of any size, piece by piece: iterate over the returned `Reading`."""
        check_range(offset, length)
        return Reading(self._backend.reader(checked_path(path), offset, length))

    def read_text(self, path: str) -> str:
        """Read a file as text; bytes that are not UTF-8 become replacement characters."""
        return (self.read(path)).decode(errors="replace")

    def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """List the entries of a folder and, with `depth`, of the folders below it."""
        return self._backend.list(checked_path(path), checked_depth(depth))

    def stat(self, path: str) -> Entry:
        """Describe the entry at a path; links are not followed."""
        return self._backend.stat(checked_path(path))

    def exists(self, path: str) -> bool:
        """Return whether this path exists."""
        try:
            self.stat(path)
        except FileMissing:
            return False
        return True

    def mkdir(self, path: str) -> bool:
        """Make a folder and its parents; return False if it existed already."""
        return self._backend.mkdir(checked_path(path))

    def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""
        return self._backend.rename(checked_path(path), checked_path(new_path))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        self._backend.remove(checked_path(path))

    def watch(self, path: str = ".", *, recursive: bool = False) -> Watch:
        """Watch a folder for changes: iterate over the returned watch, and close it."""
        return Watch(self._backend.watch(checked_path(path), recursive))

    def disk(self) -> dict[str, int]:
        """Measure the workspace's file system: total and free, in bytes and in files."""
        return self._backend.disk()


class Watch:
    """Changes in a folder, as they happen."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def next_change(self, timeout: float | None = None) -> Change | None:
        """Wait for the next change; None if there is none in time, or when the sandbox has ended."""
        return self._watcher.next_change(timeout)

    def drain(self) -> list[Change]:
        """Return all changes so far that were not returned yet."""
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
