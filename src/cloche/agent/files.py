"""File operations, carried out inside the wall: whatever a path leads to, it is something the sandbox sees anyway."""

from __future__ import annotations

import os
import stat as modes

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cloche.agent.main import Agent

MAX_LISTING = frames.WINDOW // 2  # bytes of one listing
_BATCH = 100  # entries in one frame: names are escaped to at most 24 kB each path, so this fits


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out what a CALL frame asks for."""
    method = request.get("method")
    if method == "read":
        agent.operations[operation] = Reading(agent, operation, request)
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
        return sorted((item.path for item in scan), reverse=True)  # to be taken from the end


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
        self._fd = _open_regular(resolve(agent, request), os.O_RDONLY)
        self._position = int(request.get("offset", 0))
        length = request.get("length")
        self._left = int(length) if length is not None else 1 << 62
        self._credit = frames.WINDOW
        agent.send(frames.encode_json(operation, frames.STARTED, {"size": os.fstat(self._fd).st_size}))
        self._push()

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
                self._agent.send(frames.encode(self._operation, frames.DATA, data))
        except OSError as problem:
            os.close(self._fd)
            self._agent.fail(self._operation, problem)
            return
        if self._left <= 0:
            self.cancel()


class Writing:
    """A file on its way from the engine."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._path = resolve(agent, request)
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        how = os.O_APPEND if request.get("append") else os.O_TRUNC
        self._fd = _open_regular(self._path, os.O_WRONLY | os.O_CREAT | how)
        self._problem: OSError | None = None
        if request.get("mode") is not None:
            os.fchmod(self._fd, int(request["mode"]) & 0o777)

    def receive(self, kind: int, payload: bytes) -> None:
        """More of the contents, their end, or the wish to stop."""
        if kind == frames.INPUT:
            self._write(payload)
            self._agent.send(frames.credit(self._operation, len(payload)))
        elif kind == frames.INPUT_END:
            os.close(self._fd)
            if self._problem is not None:
                self._agent.fail(self._operation, self._problem)
            else:
                self._agent.finish(self._operation, frames.REPLY, {"entry": entry(self._path)})
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop writing."""
        os.close(self._fd)
        self._agent.finish(self._operation, frames.REPLY, {})

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._problem is None:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as problem:  # the disk is full: say so at the end, and take the rest without keeping it
                self._problem = problem
