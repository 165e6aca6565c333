"""File operations.  They run inside the wall, so a path can only lead to things that the sandbox sees anyway."""

from __future__ import annotations

import os
import stat as modes

from cloche.agent.file_entries import describe
from cloche.agent.file_transfers import FileReading, FileWriting
from cloche.agent.folder_listing import FolderListing
from cloche.agent.paths import resolve
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

_EXDEV, _ENOTEMPTY = 18, 39


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

        agent.operations[operation] = FolderWatch(
            agent, operation, resolve(agent, request["path"]), bool(request["recursive"])
        )
    elif method in _CALLS:
        agent.send(frames.encode_json(operation, frames.REPLY, _CALLS[method](agent, operation, request)))
    else:
        raise ValueError(f"this agent does not know the call {method!r}")


def _stat(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    return {"entry": describe(resolve(agent, request["path"]), request)}


def _mkdir(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request["path"])
    existed = os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    reply: dict[str, Any] = {"created": not existed}
    if request.get("details"):
        reply["entry"] = describe(path, request)
    return reply


def _rename(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    new = resolve(agent, request["new_path"])
    os.makedirs(os.path.dirname(new), exist_ok=True)
    old = resolve(agent, request["path"])
    try:
        os.rename(old, new)
    except OSError as problem:
        if problem.errno != _EXDEV:
            raise
        import shutil

        shutil.move(old, new)  # /sandbox, /home/user, /tmp … are separate mounts
    return {"entry": describe(new, request)}


def _remove(agent: Agent, _operation: int, request: dict[str, Any]) -> dict[str, Any]:
    path = resolve(agent, request["path"])
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


def disk(path: str) -> dict[str, int]:
    """Return size and free space of the workspace's file system."""
    status = os.statvfs(path)
    return {
        "total": status.f_blocks * status.f_frsize,
        "free": status.f_bfree * status.f_frsize,
        "inodes": status.f_files,
        "inodes_free": status.f_ffree,
    }


def _disk(agent: Agent, _operation: int, _request: dict[str, Any]) -> dict[str, Any]:
    return disk(agent.home)


_CALLS: dict[Any, Callable[[Agent, int, dict[str, Any]], dict[str, Any]]] = {
    "stat": _stat,
    "mkdir": _mkdir,
    "rename": _rename,
    "remove": _remove,
    "disk": _disk,
}


METHODS = frozenset(("read", "write", "list", "watch", *_CALLS))
