"""Moves the files of a sandbox out and back in, for callers that keep them beyond the sandbox's life.

`inventory` lists everything, `contents` reads a file, and `arrange` creates folders and links.  Paths in the workspace
are relative.  Files outside of it, such as those in /app, have absolute paths, in a sandbox with a root of its own.
"""

from __future__ import annotations

import os
import stat as modes

from cloche.agent.file_transfers import FileReading
from cloche.agent.versions import mapped
from cloche.agent.versions.permissions import FOLDER, give_back, open_file, open_folder
from cloche.agent.versions.tree_walk import TreePosition, walk
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.agent.main import Agent

_BATCH = 100  # entries in one frame
_LONG_NAME = 1000  # characters of a name that end a batch early
_MAX_PATH = 4000  # bytes; with /sandbox in front, the path can still be opened
_KINDS = {modes.S_IFREG: "file", modes.S_IFDIR: "directory", modes.S_IFLNK: "symlink"}


class Inventory:
    """Lists all files, folders and links of the sandbox, as fast as the engine grants credit.

    An entry is `[path, kind, mode, size, mtime, ctime, inode, sure, target]`, with times in nanoseconds.  `sure` is
    false for a file that a program has mapped, which can change without a trace.  Other file systems, and the names in
    `leave_out` at the top of the workspace, are left out; so are those in `system` at the top of the root.  Of the
    paths in `usual`, which every sandbox has, only the content is listed.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._usual = frozenset(request.get("usual", ()))
        self._unread: list[str] = []
        self._hidden = 0  # number of entries whose path is too long
        self._top = os.open(agent.home, FOLDER)
        try:
            self._mapped = mapped(self._top, frozenset(("1",)))
        except OSError:
            os.close(self._top)
            raise
        leave_out, system = frozenset(request.get("leave_out", ())), frozenset(request.get("system", ()))
        self._entries = self._list_all(leave_out, None if agent.bare_root is None else (agent.bare_root, system))
        self._credit = frames.WINDOW // 2  # a batch may exceed it
        agent.operations[operation] = self
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
        self._entries.close()  # type: ignore[attr-defined]
        os.close(self._top)
        hidden = self._hidden + len(self._unread[_BATCH:])
        self._agent.finish(self._operation, frames.REPLY, {"unread": self._unread[:_BATCH], "hidden": hidden})

    def _push(self) -> None:
        while self._credit > 0:
            batch = []
            for entry in self._entries:
                batch.append(entry)
                if len(batch) >= _BATCH or len(entry[0]) + len(entry[-1] or "") > _LONG_NAME:
                    break
            if not batch:
                self.cancel()
                return
            frame = frames.encode_json(self._operation, frames.EVENT, {"entries": batch})
            self._credit -= max(len(frame), frames.LEAST)
            self._agent.send(frame)

    def _list_all(self, leave_out: frozenset[str], root: tuple[int, frozenset[str]] | None) -> Iterator[list[Any]]:
        yield from self._list_entries(self._top, leave_out, "")
        if root is not None:
            yield from self._list_entries(*root, "/")

    def _list_entries(self, top: int, left_out: frozenset[str], above: str) -> Iterator[list[Any]]:
        paths: list[str | None] = [above]  # of folders, by number; None for those whose path is too long
        with TreePosition(top, 0o500, left_out) as place:
            try:
                for parent, name, status in walk(place):
                    path = self._below(paths[parent], name)
                    if modes.S_ISDIR(status.st_mode):
                        paths.append(path)
                    if path is not None and path not in self._usual:
                        entry = self._entry(place.fd, path, name, status)
                        if entry is not None:
                            yield entry
            finally:
                known = [paths[number] for number in place.unread if number < len(paths)]
                self._unread += [path for path in known if path is not None]

    def _entry(self, folder: int, path: str, name: str, status: os.stat_result) -> list[Any] | None:
        kind = _KINDS.get(modes.S_IFMT(status.st_mode))
        if kind is None:
            return None  # a fifo, a socket
        target = None
        if kind == "symlink":
            try:
                target = os.readlink(name, dir_fd=folder)
            except OSError:
                return None  # removed in the meantime
        sure = status.st_ino not in self._mapped
        times = status.st_mtime_ns, status.st_ctime_ns
        return [path, kind, modes.S_IMODE(status.st_mode), status.st_size, *times, status.st_ino, sure, target]

    def _below(self, folder: str | None, name: str) -> str | None:
        if folder is None:
            return None
        path = f"{folder}/{name}" if folder.strip("/") else f"{folder}{name}"
        if len(path) > _MAX_PATH // 4 and len(os.fsencode(path)) > _MAX_PATH:
            self._hidden += 1
            return None
        return path


class WorkspaceFileReading(FileReading):
    """Reads a file that the inventory has listed, even without its owner's permission; no link is followed."""

    def _open(self, agent: Agent, request: dict[str, Any]) -> int:
        path = str(request["path"])
        if path.startswith("/") and agent.bare_root is not None:
            top = os.open(".", FOLDER, dir_fd=agent.bare_root)
        else:
            top = os.open(agent.home, FOLDER)
        *folders, name = path.removeprefix("/").split("/")
        opened: list[tuple[int, int | None]] = [(top, None)]
        try:
            for folder in folders:
                opened.append(open_folder(opened[-1][0], folder, 0o500))
            return open_file(opened[-1][0], name)
        finally:
            for fd, mode in reversed(opened):
                give_back(fd, mode)
                os.close(fd)


def _inventory(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    Inventory(agent, operation, request)


def _contents(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    WorkspaceFileReading(agent, operation, request)


def _arrange(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Create folders and links, then set modes and times."""
    for path in request.get("folders", ()):
        os.makedirs(os.path.join(agent.home, path), 0o700, exist_ok=True)
    for path, target in request.get("links", ()):
        os.symlink(target, os.path.join(agent.home, path))
    for path, mode, modified in request.get("settled", ()):
        whole = os.path.join(agent.home, path)
        if modified is not None:
            os.utime(whole, ns=(modified, modified))
        os.chmod(whole, mode)
    agent.finish(operation, frames.REPLY, {})


CALLS = {"inventory": _inventory, "contents": _contents, "arrange": _arrange}
