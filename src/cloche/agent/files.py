"""File operations, carried out inside the wall: whatever a path leads to, it is something the sandbox sees anyway."""

from __future__ import annotations

import os
import stat as modes

from cloche.agent import drafts
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cloche.agent.main import Agent

MAX_LISTING = frames.WINDOW // 2  # bytes of one listing
_CREDIT = frames.WINDOW // 4  # bytes that a writer is allowed at once
_BATCH = 100  # entries in one frame: names are escaped to at most 24 kB each path, so this fits


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out what a CALL frame asks for."""
    method = request.get("method")
    if method == "read":
        Reading(agent, operation, request)
    elif method == "write":
        agent.operations[operation] = Writing(agent, operation, request)
    elif method == "watch":
        from cloche.agent.watch import Watching

        agent.operations[operation] = Watching(agent, operation, resolve(agent, request), bool(request["recursive"]))
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


def _stat(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    return {"entry": entry(resolve(agent, request))}


def _list(agent: Agent, operation: int, request: dict[str, Any]) -> dict[str, Any]:
    batch: list[dict[str, Any]] = []
    sent = 0
    for found in _walk(resolve(agent, request), int(request.get("depth", 1))):
        batch.append(found)
        if len(batch) >= _BATCH or len(found["path"]) > 1000:
            frame = frames.encode_json(operation, frames.EVENT, {"entries": batch})
            batch = []
            sent += len(frame)
            if sent > MAX_LISTING:
                return {"entries": [], "truncated": True}
            agent.send(frame)
    return {"entries": batch, "truncated": False}


def _walk(folder: str, depth: int) -> Iterator[dict[str, Any]]:
    # With a list of what is still to come instead of a call for each folder: they can be nested deeper than calls.
    ahead = [(path, 1) for path in _paths_in(folder)]
    while ahead:
        path, level = ahead.pop()
        try:
            found = entry(path)
        except OSError:
            continue  # it went away meanwhile, or lies deeper than a path can tell
        yield found
        if found["kind"] == "directory" and level < depth:
            try:
                ahead += [(below, level + 1) for below in _paths_in(path)]
            except OSError:
                continue  # not to be read


def _paths_in(folder: str) -> list[str]:
    with os.scandir(folder) as scan:
        paths = [item.path for item in scan if not drafts.is_live(item.name)]
    return sorted(paths, reverse=True)  # to be taken from the end


def _mkdir(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    existed = os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    return {"created": not existed}


def _rename(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    new = resolve(agent, request, "new_path")
    os.makedirs(os.path.dirname(new), exist_ok=True)
    os.rename(resolve(agent, request), new)
    return {"entry": entry(new)}


def _remove(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request)
    if modes.S_ISDIR(os.lstat(path).st_mode):
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
    "list": _list,
    "mkdir": _mkdir,
    "rename": _rename,
    "remove": _remove,
    "disk": _disk,
}


METHODS = frozenset(("read", "write", "watch", *_CALLS))


def _open_regular(path: str, flags: int, mode: int = 0o644) -> int:
    # Not blocking, so that a fifo without a partner is an error and not a wait for ever.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    status = os.fstat(fd)
    if not modes.S_ISREG(status.st_mode):
        os.close(fd)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "it is a directory")
        raise OSError(22, "it is not a regular file")
    return fd


class Reading:
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
        return _open_regular(resolve(agent, request), os.O_RDONLY)

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


class Writing:
    """A file on its way from the engine: a draft, which takes the file's place when it is complete.

    What is appended to, and what a draft cannot take the place of without a difference (a file with several names, of
    another owner, in a folder that takes no new ones), is written where it is.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._path = resolve(agent, request)
        self._folders = _make_folders(os.path.dirname(self._path))
        self._problem: OSError | None = None
        self._taken = 0  # bytes that no credit was given for yet
        self._draft: drafts.Draft | None = None
        try:
            self._fd = self._open(bool(request.get("append")))
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
            return _open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        target = os.path.realpath(self._path)
        try:
            existing = _open_regular(target, os.O_WRONLY)
        except FileNotFoundError:
            status = None
        else:
            status = os.fstat(existing)
            os.close(existing)
        if status is None or (status.st_nlink == 1 and status.st_uid == os.geteuid()):
            try:
                self._draft = drafts.Draft(target, status)
            except OSError:
                pass
            else:
                return self._draft.fd
        return _open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

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
