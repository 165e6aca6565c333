"""Sends files to the engine and receives files from it, under credit."""

from __future__ import annotations

import os

from cloche.agent import atomic_writes
from cloche.agent.file_entries import entry, entry_with, set_attributes
from cloche.agent.paths import open_regular, resolve
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

_CREDIT = frames.WINDOW // 4  # bytes to receive before granting more credit
_MAX_COMPARED = 64 << 20  # bytes of a file whose digest a request may expect; the agent does nothing else meanwhile
_ESTALE = 116


class FileReading:
    """A file that is being sent to the engine."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._fd = self._open(agent, request)
        self._position = int(request.get("offset", 0))
        length = request.get("length")
        self._remaining = int(length) if length is not None else 1 << 62
        self._credit = frames.READ_WINDOW
        agent.operations[operation] = self  # before the first push, which may already finish the operation
        agent.send(frames.encode_json(operation, frames.STARTED, {"size": os.fstat(self._fd).st_size}))
        self._push()

    def _open(self, agent: Agent, request: dict[str, Any]) -> int:
        return open_regular(resolve(agent, request["path"]), os.O_RDONLY)

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle credit or a cancellation."""
        if kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            self._push()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop reading."""
        os.close(self._fd)
        self._agent.finish(self._operation, frames.REPLY, {})

    def _push(self) -> None:
        try:
            while self._credit >= frames.LEAST and self._remaining > 0:
                data = os.pread(self._fd, min(frames.CHUNK, self._credit, self._remaining), self._position)
                if not data:
                    self._remaining = 0
                    break
                self._position += len(data)
                self._credit -= frames.cost(data)
                self._remaining -= len(data)
                self._agent.send(frames.header(self._operation, frames.DATA, len(data)))
                self._agent.send(data)
        except OSError as problem:
            os.close(self._fd)
            self._agent.fail(self._operation, problem)
            return
        if self._remaining <= 0:
            self.cancel()


class FileWriting:
    """A file that is being received: written to a temporary file, which replaces the target when it is complete.

    The target itself is written if the request appends or says `in_place`, and if replacing it would change more than
    its contents: a file with several names, of another owner, or in a folder that accepts no new files.

    With `expected`, the file is written only if its contents have this SHA-256 digest, or with an empty one only if
    there is no file.  Two people who edit the same file thus never overwrite each other's changes.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._path = resolve(agent, request["path"])
        self._folders = _make_folders(os.path.dirname(self._path))
        self._problem: OSError | None = None
        self._uncredited = 0  # bytes not yet credited
        self._atomic_write: atomic_writes.AtomicWrite | None = None
        self._expected: str | None = request.get("expected")
        try:
            self._check_expected()  # before the target may be emptied
            self._fd = self._open_in_place() if request.get("in_place") else self._open(bool(request.get("append")))
            if request.get("attributes") is not None:
                set_attributes(self._fd, request["attributes"])
            if request.get("mode") is not None:
                os.fchmod(self._fd, int(request["mode"]) & 0o777)
        except OSError:
            self._remove_folders()
            raise

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle contents, their end, or a cancellation."""
        if kind == frames.INPUT:
            self._write(payload)
            self._uncredited += len(payload)
            if self._uncredited >= _CREDIT:  # not for every piece: each credit wakes the engine
                self._agent.send(frames.credit(self._operation, self._uncredited))
                self._uncredited = 0
        elif kind == frames.INPUT_END:
            self._finish()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop writing."""
        self._close()
        self._remove_folders()
        self._agent.finish(self._operation, frames.REPLY, {})

    def _open(self, append: bool) -> int:
        if append:
            return open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        target = os.path.realpath(self._path)
        try:
            existing = open_regular(target, os.O_WRONLY)
        except FileNotFoundError:
            status = None
        else:
            status = os.fstat(existing)
            os.close(existing)
        if status is None or (status.st_nlink == 1 and status.st_uid == os.geteuid()):
            try:
                self._atomic_write = atomic_writes.AtomicWrite(target, status)
            except OSError:
                pass
            else:
                return self._atomic_write.fd
        return open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def _open_in_place(self) -> int:
        """Open the file itself for writing: create or empty it, and make it ours."""
        fd = open_regular(self._path, os.O_WRONLY | os.O_CREAT)
        try:
            os.fchown(fd, os.geteuid(), os.getegid())
        except OSError:
            pass  # owned by somebody else, but writable
        if os.fstat(fd).st_size:
            os.ftruncate(fd, 0)
        return fd

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._problem is None:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as problem:  # the disk is full: report it at the end, and discard the rest
                self._problem = problem

    def _finish(self) -> None:
        try:
            if self._problem is not None:
                raise self._problem
            if self._atomic_write is not None:
                self._check_expected()  # again: somebody may have written while the contents arrived
                self._atomic_write.publish()
            found = self._described()
        except OSError as problem:
            self._close()
            self._remove_folders()
            self._agent.fail(self._operation, problem)
        else:
            self._close()
            self._agent.finish(self._operation, frames.REPLY, {"entry": found})

    def _check_expected(self) -> None:
        if self._expected is not None and _digest(self._path) != self._expected:
            raise OSError(_ESTALE, "the file has changed")

    def _described(self) -> dict[str, Any]:
        try:
            return entry(self._path)
        except FileNotFoundError:  # a program has removed the file at once; it was written all the same
            return entry_with(self._path, os.fstat(self._fd))

    def _close(self) -> None:
        if self._atomic_write is not None:
            self._atomic_write.drop()
        else:
            os.close(self._fd)

    def _remove_folders(self) -> None:
        """Remove the folders that were created for this file."""
        for folder in reversed(self._folders):
            try:
                os.rmdir(folder)
            except OSError:
                return  # it is in use by now


def _digest(path: str) -> str:
    """Return the SHA-256 digest of a file as hexadecimal digits; empty if there is none."""
    from hashlib import sha256  # few writes need it, and it takes milliseconds to import

    try:
        fd = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    found = sha256()
    room = _MAX_COMPARED
    try:
        while piece := os.read(fd, frames.CHUNK):
            found.update(piece)
            room -= len(piece)
            if room < 0:
                raise OSError(27, "the file is too large to be compared")
    finally:
        os.close(fd)
    return found.hexdigest()


def _make_folders(path: str) -> list[str]:
    """Create a folder and its missing parents; returns the created ones."""
    missing: list[str] = []
    while not os.path.isdir(path) and path != "/":
        missing.append(path)
        path = os.path.dirname(path)
    missing.reverse()
    for folder in missing:
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
    return missing
