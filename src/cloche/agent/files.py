"""File operations, carried out inside the wall: whatever a path leads to, it is something the sandbox sees anyway."""

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
_CREDIT = frames.WINDOW // 4  # bytes that a writer is allowed at once
MAX_ATTRIBUTES = 64 << 10  # bytes that are told of one file's attributes
_USERS = "user."
_EXDEV, _ENOTEMPTY = 18, 39
_BATCH = 100  # entries in one frame: names are escaped to at most 24 kB each path, so this fits


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out what a CALL frame asks for."""
    for watching in agent.watching:
        watching.look()  # before anything else happens: a folder that was just made may have to be watched, too
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
    """The path that was asked for; relative ones start at the workspace."""
    path = request[name]
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL byte")
    if path == "~" or path.startswith("~/"):
        path = agent.home + path[1:]
    return os.path.normpath(os.path.join(agent.home, path))


def entry(path: str) -> dict[str, Any]:
    """What there is at a path, not following a link."""
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


def _told(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The same, with its details when they were asked for."""
    found = entry(path)
    if request.get("details"):
        found["attributes"] = _attributes(path)
        if found["kind"] == "symlink":
            found["leads_to"] = _leads_to(path)
    return found


def _leads_to(path: str) -> dict[str, Any] | None:
    """What is at the end of a link; None when there is nothing."""
    try:
        end = entry(os.path.realpath(path, strict=True))
    except OSError:
        return None
    return {name: end[name] for name in ("path", "kind", "mode")}


def _attributes(path: str) -> dict[str, str]:
    """What was written about a file by whoever likes to (xattrs in the `user` namespace), by name."""
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
        pass  # a file system that has none
    return found


def _set_attributes(file: int, attributes: dict[str, str]) -> None:
    """Have these attributes, and no others of that namespace."""
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
    return {"entry": _told(resolve(agent, request), request)}


class FolderListing:
    """What is in a folder, on its way to the engine, which takes as much as it likes."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation, self._request = agent, operation, request
        self._found = _walk(resolve(agent, request), int(request.get("depth", 1)))
        self._credit = frames.WINDOW // 2  # one batch may pass it
        self._most, self._sent = int(request.get("most", MAX_LISTING)), 0
        agent.operations[operation] = self  # before the first push, which may be the last
        self._push()

    def receive(self, kind: int, payload: bytes) -> None:
        """Credit for more, or that it is enough."""
        if kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            self._push()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Look no further."""
        self._agent.finish(self._operation, frames.REPLY, {"entries": [], "truncated": True})

    def _push(self) -> None:
        batch: list[dict[str, Any]] = []
        while self._credit > 0:
            path = next(self._found, None)
            if path is None:
                self._agent.finish(self._operation, frames.REPLY, {"entries": batch, "truncated": False})
                return
            try:
                batch.append(_told(path, self._request))
            except OSError:
                continue  # it went away meanwhile
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
    """Is this more than a hundredth of what a frame can carry?"""
    leads_to = (found.get("leads_to") or {}).get("path", "")
    return len(found["path"]) + len(found.get("target", "")) + len(leads_to) > 1000 or bool(found.get("attributes"))


def _walk(folder: str, depth: int) -> Iterator[str]:
    # With a list of what is still to come instead of a call for each folder: they can be nested deeper than calls.
    ahead = [(path, is_folder, 1) for path, is_folder in _paths_in(folder)]
    while ahead:
        path, is_folder, level = ahead.pop()
        yield path
        if is_folder and level < depth:
            try:
                ahead += [(below, is_below, level + 1) for below, is_below in _paths_in(path)]
            except OSError:
                continue  # not to be read, or it lies deeper than a path can tell


def _paths_in(folder: str) -> list[tuple[str, bool]]:
    """What is in a folder, and whether it is one, too; to be taken from the end."""
    with os.scandir(folder) as scan:
        paths = [
            (item.path, item.is_dir(follow_symlinks=False)) for item in scan if not atomic_writes.is_live(item.name)
        ]
    return sorted(paths, reverse=True)


def _mkdir(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    existed = os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    told: dict[str, Any] = {"created": not existed}
    if request.get("details"):
        told["entry"] = _told(path, request)
    return told


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

        shutil.move(old, new)  # /sandbox, /home/user, /tmp … are mounts of their own
    return {"entry": _told(new, request)}


def _remove(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    if modes.S_ISDIR(os.lstat(path).st_mode):
        try:
            os.rmdir(path)  # a folder that has to stay (/sandbox, a mount) is refused here, with all that is in it
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
    """Open a file that a program may have put there, or something else in its place."""
    # Not blocking, so that a fifo without a partner is an error and not a wait for ever.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    status = os.fstat(fd)
    if not modes.S_ISREG(status.st_mode):
        os.close(fd)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "it is a directory")
        raise OSError(22, "it is not a regular file")
    return fd


class FileReading:
    """A file on its way to the engine."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._fd = self._open(agent, request)
        self._position = int(request.get("offset", 0))
        length = request.get("length")
        self._left = int(length) if length is not None else 1 << 62
        self._credit = frames.WINDOW
        agent.operations[operation] = self  # before the first push, which may be the last
        agent.send(frames.encode_json(operation, frames.STARTED, {"size": os.fstat(self._fd).st_size}))
        self._push()

    def _open(self, agent: Agent, request: dict[str, Any]) -> int:
        return open_regular(resolve(agent, request), os.O_RDONLY)

    def receive(self, kind: int, payload: bytes) -> None:
        """Credit for more, or the wish to stop."""
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
    """A file on its way from the engine: a draft, which takes the file's place when it is complete.

    What is appended to or written `in_place`, and what a draft cannot take the place of without a difference (a file
    with several names, of another owner, in a folder that takes no new ones), is written where it is.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._path = resolve(agent, request)
        self._folders = _make_folders(os.path.dirname(self._path))
        self._problem: OSError | None = None
        self._taken = 0  # bytes that no credit was given for yet
        self._draft: atomic_writes.AtomicWrite | None = None
        try:
            self._fd = self._open_here() if request.get("in_place") else self._open(bool(request.get("append")))
            if request.get("attributes") is not None:
                _set_attributes(self._fd, request["attributes"])
            if request.get("mode") is not None:
                os.fchmod(self._fd, int(request["mode"]) & 0o777)
        except OSError:
            self._remove_folders()
            raise

    def receive(self, kind: int, payload: bytes) -> None:
        """More of the contents, their end, or the wish to stop."""
        if kind == frames.INPUT:
            self._write(payload)
            self._taken += len(payload)
            if self._taken >= _CREDIT:  # not for every piece: the engine would wake up for each
                self._agent.send(frames.credit(self._operation, self._taken))
                self._taken = 0
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
                self._draft = atomic_writes.AtomicWrite(target, status)
            except OSError:
                pass
            else:
                return self._draft.fd
        return open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def _open_here(self) -> int:
        """Write the file itself: made or emptied now, its owner's, and then filled."""
        fd = open_regular(self._path, os.O_WRONLY | os.O_CREAT)
        try:
            os.fchown(fd, os.geteuid(), os.getegid())
        except OSError:
            pass  # somebody else's, which can be written all the same
        if os.fstat(fd).st_size:
            os.ftruncate(fd, 0)
        return fd

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._problem is None:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as problem:  # the disk is full: say so at the end, and take the rest without keeping it
                self._problem = problem

    def _finish(self) -> None:
        try:
            if self._problem is not None:
                raise self._problem
            if self._draft is not None:
                self._draft.publish()
            told = entry(self._path)
        except OSError as problem:
            self._close()
            self._remove_folders()
            self._agent.fail(self._operation, problem)
        else:
            self._close()
            self._agent.finish(self._operation, frames.REPLY, {"entry": told})

    def _close(self) -> None:
        if self._draft is not None:
            self._draft.drop()
        else:
            os.close(self._fd)

    def _remove_folders(self) -> None:
        """Those that were made for this file alone."""
        for folder in reversed(self._folders):
            try:
                os.rmdir(folder)
            except OSError:
                return  # it is used for something else meanwhile


def _make_folders(path: str) -> list[str]:
    """Make a folder and those on the way; which were made."""
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
