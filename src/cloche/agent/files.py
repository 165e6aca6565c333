"""File operations.  They run inside the wall, so a path can only lead to things that the sandbox sees anyway."""

from __future__ import annotations

import os
import stat as modes

from cloche.agent import atomic_writes
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cloche.agent.main import Agent

MAX_LISTING = frames.WINDOW // 2  # bytes of one listing
_CREDIT = frames.WINDOW // 4  # bytes to receive before granting more credit
MAX_ATTRIBUTES = 64 << 10  # bytes of one file's attributes in a reply
_USERS = "user."
_EXDEV, _ENOTEMPTY = 18, 39
_BATCH = 100  # entries in one frame: a path takes at most 24 kB when escaped, so they fit


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out a CALL frame for a file operation."""
    for watch in agent.folder_watches:
        watch.read_events()  # first: a folder that was just created may have to be watched, too
    method = request.get("method")
    if method == "read":
        FileReading(agent, operation, request)
    elif method == "write":
        agent.operations[operation] = FileWriting(agent, operation, request)
    elif method == "list":
        FolderListing(agent, operation, request)
    elif method == "watch":
        from cloche.agent.folder_watch import FolderWatch

        agent.operations[operation] = FolderWatch(agent, operation, resolve(agent, request), bool(request["recursive"]))
    elif method in _CALLS:
        agent.send(frames.encode_json(operation, frames.REPLY, _CALLS[method](agent, operation, request)))
    else:
        raise ValueError(f"this agent does not know the call {method!r}")


def resolve(agent: Agent, request: dict[str, Any], name: str = "path") -> str:
    """Return the absolute path of a request; relative paths start at the workspace."""
    path = request[name]
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL byte")
    if path == "~" or path.startswith("~/"):
        path = agent.home + path[1:]
    return os.path.normpath(os.path.join(agent.home, path))


def entry(path: str) -> dict[str, Any]:
    """Describe the file, folder or link at a path, without following a link."""
    status = os.lstat(path)
    kind = "other"
    for test, name in ((modes.S_ISREG, "file"), (modes.S_ISDIR, "directory"), (modes.S_ISLNK, "symlink")):
        if test(status.st_mode):
            kind = name
    found: dict[str, Any] = {
        "path": path,
        "kind": kind,
        "size": status.st_size,
        "mode": modes.S_IMODE(status.st_mode),
        "modified": status.st_mtime,
        "uid": status.st_uid,
        "gid": status.st_gid,
    }
    if kind == "symlink":
        found["target"] = os.readlink(path)
    return found


def _describe(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Describe a path, with attributes and the link's target if the request asks for details."""
    found = entry(path)
    if request.get("details"):
        found["attributes"] = _attributes(path)
        if found["kind"] == "symlink":
            found["leads_to"] = _leads_to(path)
    return found


def _leads_to(path: str) -> dict[str, Any] | None:
    """Describe the end of a link; None when there is nothing."""
    try:
        end = entry(os.path.realpath(path, strict=True))
    except OSError:
        return None
    return {name: end[name] for name in ("path", "kind", "mode")}


def _attributes(path: str) -> dict[str, str]:
    """Return a file's xattrs in the `user` namespace, by name."""
    found: dict[str, str] = {}
    room = MAX_ATTRIBUTES
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            if name.startswith(_USERS):
                value = os.getxattr(path, name, follow_symlinks=False)
                room -= len(name) + len(value)
                if room < 0:
                    break
                found[name.removeprefix(_USERS)] = value.decode("utf-8", "surrogateescape")
    except OSError:
        pass  # the file system does not support attributes
    return found


def _set_attributes(file: int, attributes: dict[str, str]) -> None:
    """Make these the file's only attributes in the `user` namespace."""
    try:
        known = os.listxattr(file)
    except OSError:
        known = []
    for name in known:
        if name.startswith(_USERS) and name.removeprefix(_USERS) not in attributes:
            os.removexattr(file, name)
    for name, value in attributes.items():
        os.setxattr(file, _USERS + name, value.encode("utf-8", "surrogateescape"))


def _stat(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    return {"entry": _describe(resolve(agent, request), request)}


class FolderListing:
    """A folder's entries, sent as fast as the engine grants credit."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation, self._request = agent, operation, request
        self._found = _walk(resolve(agent, request), int(request.get("depth", 1)))
        self._credit = frames.WINDOW // 2  # a batch may exceed it
        self._most, self._sent = int(request.get("most", MAX_LISTING)), 0
        agent.operations[operation] = self  # before the first push, which may already finish the operation
        self._push()

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle credit or a cancellation."""
        if kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            self._push()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop listing."""
        self._agent.finish(self._operation, frames.REPLY, {"entries": [], "truncated": True})

    def _push(self) -> None:
        batch: list[dict[str, Any]] = []
        while self._credit > 0:
            path = next(self._found, None)
            if path is None:
                self._agent.finish(self._operation, frames.REPLY, {"entries": batch, "truncated": False})
                return
            try:
                batch.append(_describe(path, self._request))
            except OSError:
                continue  # removed in the meantime
            if len(batch) >= _BATCH or _is_long(batch[-1]):
                if self._sent > self._most:
                    self.cancel()
                    return
                self._send(batch)
                batch = []

    def _send(self, batch: list[dict[str, Any]]) -> None:
        payload = dumps({"entries": batch}).encode()
        self._sent += len(payload)
        self._credit -= frames.cost(payload)
        self._agent.send(frames.encode(self._operation, frames.EVENT, payload))


def _is_long(found: dict[str, Any]) -> bool:
    """Say whether an entry may take more than a hundredth of a frame."""
    leads_to = (found.get("leads_to") or {}).get("path", "")
    return len(found["path"]) + len(found.get("target", "")) + len(leads_to) > 1000 or bool(found.get("attributes"))


def _walk(folder: str, depth: int) -> Iterator[str]:
    # An explicit stack instead of recursion: folders can be nested deeper than Python's calls.
    stack = [(path, is_folder, 1) for path, is_folder in _paths_in(folder)]
    while stack:
        path, is_folder, level = stack.pop()
        yield path
        if is_folder and level < depth:
            try:
                stack += [(below, is_below, level + 1) for below, is_below in _paths_in(path)]
            except OSError:
                continue  # not readable, or deeper than a path can be


def _paths_in(folder: str) -> list[tuple[str, bool]]:
    """Return the paths in a folder, in reverse order, and whether each is a folder."""
    with os.scandir(folder) as scan:
        paths = [
            (item.path, item.is_dir(follow_symlinks=False))
            for item in scan
            if not atomic_writes.is_in_progress(item.name)
        ]
    return sorted(paths, reverse=True)


def _mkdir(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    existed = os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    reply: dict[str, Any] = {"created": not existed}
    if request.get("details"):
        reply["entry"] = _describe(path, request)
    return reply


def _rename(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    new = resolve(agent, request, "new_path")
    os.makedirs(os.path.dirname(new), exist_ok=True)
    old = resolve(agent, request)
    try:
        os.rename(old, new)
    except OSError as problem:
        if problem.errno != _EXDEV:
            raise
        import shutil

        shutil.move(old, new)  # /sandbox, /home/user, /tmp … are separate mounts
    return {"entry": _describe(new, request)}


def _remove(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    if modes.S_ISDIR(os.lstat(path).st_mode):
        try:
            os.rmdir(path)  # fails for a folder that must stay (/sandbox, a mount), before anything in it is removed
        except OSError as problem:
            if problem.errno != _ENOTEMPTY:
                raise
            import shutil

            shutil.rmtree(path)  # never follows a link
    else:
        os.unlink(path)
    return {}


def _disk(agent: Agent, _operation: int, _request: dict[str, Any]) -> dict[str, Any]:
    from cloche.agent.processes import disk

    return disk(agent.home)


_CALLS: dict[Any, Callable[[Agent, int, dict[str, Any]], dict[str, Any]]] = {
    "stat": _stat,
    "mkdir": _mkdir,
    "rename": _rename,
    "remove": _remove,
    "disk": _disk,
}


METHODS = frozenset(("read", "write", "list", "watch", *_CALLS))


def open_regular(path: str, flags: int, mode: int = 0o644) -> int:
    """Open a regular file; a program may have put something else in its place."""
    # Not blocking, so that a fifo without a writer is an error and not an endless wait.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    status = os.fstat(fd)
    if not modes.S_ISREG(status.st_mode):
        os.close(fd)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "it is a directory, not a file")
        raise OSError(22, "it is not a regular file")
    return fd


class FileReading:
    """A file that is being sent to the engine."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._fd = self._open(agent, request)
        self._position = int(request.get("offset", 0))
        length = request.get("length")
        self._left = int(length) if length is not None else 1 << 62
        self._credit = frames.WINDOW
        agent.operations[operation] = self  # before the first push, which may already finish the operation
        agent.send(frames.encode_json(operation, frames.STARTED, {"size": os.fstat(self._fd).st_size}))
        self._push()

    def _open(self, agent: Agent, request: dict[str, Any]) -> int:
        return open_regular(resolve(agent, request), os.O_RDONLY)

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
            while self._credit >= frames.LEAST and self._left > 0:
                data = os.pread(self._fd, min(frames.CHUNK, self._credit, self._left), self._position)
                if not data:
                    self._left = 0
                    break
                self._position += len(data)
                self._credit -= frames.cost(data)
                self._left -= len(data)
                self._agent.send(frames.header(self._operation, frames.DATA, len(data)))
                self._agent.send(data)
        except OSError as problem:
            os.close(self._fd)
            self._agent.fail(self._operation, problem)
            return
        if self._left <= 0:
            self.cancel()


class FileWriting:
    """A file that is being received: written to a temporary file, which replaces the target when it is complete.

    The target itself is written if the request appends or says `in_place`, and if replacing it would change more than
    its contents: a file with several names, of another owner, or in a folder that accepts no new files.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._path = resolve(agent, request)
        self._folders = _make_folders(os.path.dirname(self._path))
        self._problem: OSError | None = None
        self._uncredited = 0  # bytes not yet credited
        self._atomic_write: atomic_writes.AtomicWrite | None = None
        try:
            self._fd = self._open_in_place() if request.get("in_place") else self._open(bool(request.get("append")))
            if request.get("attributes") is not None:
                _set_attributes(self._fd, request["attributes"])
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
                self._atomic_write.publish()
            found = entry(self._path)
        except OSError as problem:
            self._close()
            self._remove_folders()
            self._agent.fail(self._operation, problem)
        else:
            self._close()
            self._agent.finish(self._operation, frames.REPLY, {"entry": found})

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
