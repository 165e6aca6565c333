"""The journal's files.  Each is only appended to, and is removed once the database has everything in it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from cloche.errors import Misconfigured, Unavailable
from cloche.model.records import Fact
from cloche.store.journal_lines import decode

_PATTERN = "journal-*.jsonl"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Segment:
    """One file, and how many of its bytes are whole lines."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path, self.size = path, size
        self.number = int(path.stem.removeprefix("journal-"))
        self._fd = -1
        self._is_torn = False

    @classmethod
    def create(cls, folder: Path, number: int) -> Segment:
        """Create a file that only its owner can read."""
        segment = cls(folder / f"journal-{number:012d}.jsonl")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            segment._fd = os.open(segment.path, flags, 0o600)
        except OSError as problem:
            raise _refused(segment.path, problem) from problem
        return segment

    def append(self, line: bytes) -> None:
        """Write a whole line, or nothing."""
        if self._is_torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
            while written < len(line):  # a signal came, or the disk is full, which the next call reports
                written += os.write(self._fd, line[written:])
        except OSError as problem:
            self._cut()
            raise _refused(self.path, problem) from problem
        self._is_torn = False
        self.size += len(line)

    def _cut(self) -> None:
        """Remove a partial line; if that fails, the next line starts with a newline of its own."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self._is_torn = True
            self.size = os.fstat(self._fd).st_size

    def read(self, offset: int, most: int, most_bytes: int) -> tuple[list[Fact], int, int]:
        """Return the facts after `offset`, the offset where they end, and the number of damaged lines."""
        facts: list[Fact] = []
        garbage, start = 0, offset
        with open(self.path, "rb") as file:
            file.seek(offset)
            while offset < self.size and len(facts) < most and offset - start < most_bytes:
                line = file.readline()
                if not line.endswith(b"\n"):  # the writer was killed before it acknowledged this fact
                    return facts, self.size, garbage
                offset += len(line)
                fact = decode(line)
                if fact is not None:
                    facts.append(fact)
                elif line != b"\n":
                    garbage += 1
        return facts, offset, garbage

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)


def left_in(folder: Path) -> list[Segment]:
    """Return the files that earlier processes left, oldest first."""
    paths = [path for path in folder.glob(_PATTERN) if path.stem.removeprefix("journal-").isdecimal()]
    return sorted((Segment(path, path.stat().st_size) for path in paths), key=lambda segment: segment.number)


def lock(folder: Path) -> int:
    """Lock the folder for this process, until the returned descriptor is closed."""
    path = folder / "lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise Misconfigured(
            f"The folder {folder} cannot be used: {problem.strerror}.",
            hint="Check that this user may write there, or choose another data directory with --data-dir.",
        ) from problem
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise Misconfigured(
            f"The folder {folder} is in use by another Cloche server, process {holder}.",
            hint="Stop that server, or give this one another data directory with --data-dir.",
        ) from problem
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


class Unrecorded(Unavailable):
    """A fact could not be recorded, so the action that it describes must not happen."""


def _refused(path: Path, problem: OSError) -> Unrecorded:
    why = "its disk is full" if problem.errno in _FULL else "its journal cannot be written"
    found = Unrecorded(
        f"The server cannot record what happens: {why}.", hint="Try again when the operator has mended it."
    )
    found.details = f"The journal in {path.parent} cannot be written: {problem.strerror}."
    return found
