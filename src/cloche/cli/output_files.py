"""Copies files out of a sandbox into a folder of the caller: `cloche run --out DIR`, `cloche cp SANDBOX:PATH DIR`.

Names, kinds, sizes and contents come from inside the sandbox, and none of them is trusted: only plain files are copied,
no name leads out of the folder, no link is followed on either side, and there are limits.  Hidden names are left out:
`git`, shells and editors take commands from files such as `.git/config`, which people do not see.
"""

from __future__ import annotations

import os
import sys
from itertools import chain

from cloche.cli.printable import printable
from cloche.errors import ClocheError, InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from cloche.blocking.sandbox.backend import FilesBackend, Reader

SOURCE = "/sandbox/output"
MAX_FILES = 2000
MAX_BYTES = 4 << 30  # of all files together
_DEPTH = 32
_MAX_NAME = 255  # bytes of one part of a path
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFolder:
    """The caller's folder, and the files that were copied into it."""

    def __init__(
        self,
        folder: str,
        given: Mapping[str, Any],
        *,
        source: str = SOURCE,
        takes_hidden: bool = False,
        moved: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make the folder, before the program runs; `given` are the files that the program got, by path.

        `moved` is called with the size of each piece that was copied.
        """
        self._shown = folder
        self._given, self._source, self._takes_hidden, self._moved = given, source, takes_hidden, moved
        self._copied: list[str] = []
        self._left_out: list[str] = []
        self._room = MAX_BYTES
        try:
            os.makedirs(folder, exist_ok=True)
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise InvalidRun(
                f"{folder} cannot be used for output: {problem.strerror}.", "Choose another DIR."
            ) from None

    def fill(self, files: FilesBackend) -> None:
        """Copy the files out of the sandbox, which still lives."""
        try:
            listing = files.list(self._source, _DEPTH)
        except ClocheError as problem:
            self._left_out.append(f"nothing: {problem.message}")
            return
        if listing.truncated:
            self._left_out.append("some files, because there are too many")
        for entry in listing:
            path = entry.path.removeprefix(f"{self._source.rstrip('/')}/")
            if entry.kind == "directory":
                continue
            why = (
                self._why_not(path)
                if entry.kind == "file"
                else "it is a link"
                if entry.kind == "symlink"
                else "it is not a file"
            )
            if not why and len(self._copied) >= MAX_FILES:
                self._left_out.append(f"more than {MAX_FILES} files")
                return
            if not why:
                why = self.copy(files, entry.path, path)
            if why and why != "given":
                self._left_out.append(f"{printable(path)}: {why}")

    @property
    def has_left_out(self) -> bool:
        """Whether something in the sandbox's folder was not copied."""
        return bool(self._left_out)

    def report(self) -> None:
        """List the files on standard error."""
        count = len(self._copied)
        files = "1 file" if count == 1 else f"{count or 'no'} files"
        lines = [f"cloche: {files} copied to {self._shown}", *(f"  {line}" for line in self._copied)]
        lines += [f"  not copied: {line}" for line in self._left_out[:20]]
        if len(self._left_out) > 20:
            lines.append(f"  not copied: {len(self._left_out) - 20} more")
        print(*lines, sep="\n", file=sys.stderr)

    def save(self, path: str, data: bytes) -> None:
        """Write a file of our own beside the copied ones, such as a picture of a cell."""
        self._put(path, iter((data,)))

    def copy(self, files: FilesBackend, source: str, path: str) -> str:
        """Copy one file to a path in the folder; return why that failed."""
        given = self._given.get(f"output/{path}")
        reader = files.reader(source, 0, None)
        try:
            size = reader.begin()
            if given is not None and size == len(given):
                pieces, length = [], 0
                while length <= len(given) and (piece := reader.next()):  # the size was a promise only
                    pieces.append(piece)
                    length += len(piece)
                if b"".join(pieces) == given:
                    return "given"  # the program has not changed it
                self._put(path, chain(pieces, self._pieces(reader)))
            else:
                self._put(path, self._pieces(reader))
        except ClocheError as problem:
            return problem.message
        except OSError as problem:
            return f"{problem.strerror}"
        finally:
            reader.close()
        return ""

    def _pieces(self, reader: Reader) -> Iterator[bytes]:
        while piece := reader.next():
            self._moved(len(piece))
            yield piece

    def _put(self, path: str, pieces: Any) -> None:
        *folders, name = path.split("/")
        fd = os.dup(self._fd)
        draft = f".cloche-{os.getpid()}.part"
        try:
            for folder in folders:
                try:
                    os.mkdir(folder, dir_fd=fd)
                except FileExistsError:
                    pass
                below = os.open(folder, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            existed, size = _exists(name, fd), 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(draft, flags, 0o666, dir_fd=fd), "wb") as file:
                for piece in pieces:
                    size += len(piece)
                    if size > self._room:
                        raise OSError(27, f"more than {MAX_BYTES >> 30} GB")
                    file.write(piece)
            os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)  # replaces a link, and never follows one
            self._room -= size
        except BaseException:
            try:
                os.unlink(draft, dir_fd=fd)
            except OSError:
                pass
            raise
        finally:
            os.close(fd)
        from cloche.results.values import size as amount

        self._copied.append(f"{printable(path)} ({amount(size)}{', replaced' if existed else ''})")

    def _why_not(self, path: str) -> str:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            return "its name leads elsewhere"
        if not self._takes_hidden and any(part.startswith(".") for part in parts):
            return "its name is hidden, and programs of yours may take commands from such a file"
        if any(len(os.fsencode(part)) > _MAX_NAME for part in parts):
            return "its name is too long"
        if not path.isprintable():
            return "its name has characters that cannot be printed"
        return ""


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
