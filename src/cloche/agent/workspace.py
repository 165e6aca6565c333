"""Moves a workspace out of a sandbox and back in, for callers that keep files beyond the sandbox's life.

`inventory` lists everything, `contents` reads a file, and `arrange` creates folders and links.
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
    """Lists all files, folders and links of the workspace, as fast as the engine grants credit.

    An entry is `[path, kind, mode, size, mtime, ctime, inode, sure, target]`, with times in nanoseconds.  `sure` is
    false for a file that a program has mapped, which can change without a trace.  Other file systems, and the names in
    `leave_out` at the top, are left out.
    """

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation = agent, operation
        self._paths: list[str | None] = [""]  # of folders, by number; None for those left out
        self._left_out = frozenset(request.get("leave_out", ()))
        self._too_long = 0  # number of entries whose path is too long
        self._top = os.open(agent.home, FOLDER)
        try:
            self._mapped = mapped(self._top, frozenset(("1",)))
            self._place = TreePosition(self._top, 0o500)
        except OSError:
            os.close(self._top)
            raise
        self._entries = self._list_entries()
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
        unread = [path for number in self._place.unread if (path := self._path_of(number)) is not None]
        self._entries.close()  # type: ignore[attr-defined]
        self._place.__exit__()
        os.close(self._top)
        more = len(unread[_BATCH:])
        self._agent.finish(self._operation, frames.REPLY, {"unread": unread[:_BATCH], "hidden": self._too_long + more})

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

    def _list_entries(self) -> Iterator[list[Any]]:
        for parent, name, status in walk(self._place):
            path = self._below(parent, name)
            is_folder = modes.S_ISDIR(status.st_mode)
            if is_folder:
                self._paths.append(path)
            if path is None:
                continue
            kind = _KINDS.get(modes.S_IFMT(status.st_mode))
            if kind is None:
                continue  # a fifo, a socket
            target = None
            if kind == "symlink":
                try:
                    target = os.readlink(name, dir_fd=self._place.fd)
                except OSError:
                    continue  # removed in the meantime
            sure = status.st_ino not in self._mapped
            times = status.st_mtime_ns, status.st_ctime_ns
            yield [path, kind, modes.S_IMODE(status.st_mode), status.st_size, *times, status.st_ino, sure, target]

    def _below(self, parent: int, name: str) -> str | None:
        folder = self._path_of(parent)
        if folder is None or (not folder and name in self._left_out):
            return None
        path = f"{folder}/{name}" if folder else name
        if len(path) > _MAX_PATH // 4 and len(os.fsencode(path)) > _MAX_PATH:
            self._too_long += 1
            return None
        return path

    def _path_of(self, number: int) -> str | None:
        return self._paths[number] if number < len(self._paths) else None


class WorkspaceFileReading(FileReading):
    """Reads a file of the workspace, even without its owner's permission; no link is followed."""

    def _open(self, agent: Agent, request: dict[str, Any]) -> int:
        *folders, name = str(request["path"]).split("/")
        opened: list[tuple[int, int | None]] = [(os.open(agent.home, FOLDER), None)]
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
