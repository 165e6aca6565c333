"""Watches folders and reports their changes to the engine."""

from __future__ import annotations

import os
from _struct import Struct

from cloche.agent import atomic_writes, libc
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_ISDIR, _IGNORED, _OVERFLOW, _ONLYDIR = 0x40000000, 0x8000, 0x4000, 0x01000000
_KINDS = (
    (_CREATE, "create"),
    (_DELETE, "remove"),
    (_MODIFY, "write"),
    (_MOVED_FROM, "rename"),
    (_MOVED_TO, "arrive"),
    (_ATTRIB, "chmod"),
)
_EVENT = Struct("iIII")
MAX_FOLDERS = 1000
_MAX_READS = 64  # more than the kernel queues for one watch

_inotify_init1 = libc.function("inotify_init1", "l")
_inotify_add_watch = libc.function("inotify_add_watch", "lzl")


class FolderWatch:
    """A watch on a folder, and on the folders below it if it is recursive."""

    def __init__(self, agent: Agent, operation: int, path: str, recursive: bool) -> None:
        self._agent, self._operation, self._recursive = agent, operation, recursive
        self._folders: dict[int, str] = {}
        self._top = path
        # Cookie of a temporary file's rename, and the changes to report for its target.
        self._replacing: tuple[int, tuple[str, ...]] = 0, ()
        self._credit = frames.WINDOW // 2  # a batch of events may exceed it
        self._fd = _inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(libc.get_errno(), "the limit of watched folders is reached")
        try:
            self._add(path)
        except OSError:
            os.close(self._fd)
            raise
        self._all_requested = False  # the engine waits for all changes so far
        agent.watch(self._fd, self._readable)
        agent.folder_watches.add(self)
        agent.send(frames.encode_json(operation, frames.STARTED, {}))

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle credit, a request for all changes so far, or a cancellation."""
        if kind == frames.CREDIT:
            if self._credit <= 0:
                self._agent.watch(self._fd, self._readable)
            self._credit += int.from_bytes(payload, "big")
        elif kind == frames.INPUT:
            self._all_requested = True
        if self._all_requested and kind in (frames.CREDIT, frames.INPUT):
            self._report_all()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop watching."""
        self._agent.unwatch(self._fd)
        self._agent.folder_watches.discard(self)
        os.close(self._fd)
        self._agent.finish(self._operation, frames.REPLY, {})

    def _add(self, path: str) -> None:
        if len(self._folders) >= MAX_FOLDERS:
            return
        mask = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
        number = _inotify_add_watch(self._fd, os.fsencode(path), mask)
        if number < 0:
            code = libc.get_errno()
            raise OSError(code, os.strerror(code))
        self._folders[number] = path
        if self._recursive:
            with os.scandir(path) as scan:
                below = [item.path for item in scan if item.is_dir(follow_symlinks=False)]
            for folder in below:
                try:
                    self._add(folder)
                except OSError:
                    continue

    def _readable(self) -> None:
        self.read_events()

    def read_events(self) -> bool:
        """Report the changes so far; False when there are none, or no credit."""
        if self._credit <= 0:
            return False
        try:
            data = os.read(self._fd, 16 << 10)  # small, so that the escaped events are far below the window
        except BlockingIOError:
            return False
        position = 0
        self._changes: list[dict[str, str]] = []
        while position < len(data):
            number, mask, cookie, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
            if mask & _OVERFLOW:
                self._report("overflow", self._top)
            elif mask & _IGNORED:
                self._folders.pop(number, None)
            elif number in self._folders:
                path = os.path.join(self._folders[number], name) if name else self._folders[number]
                self._report_event(mask, cookie, path)
                if self._recursive and mask & _ISDIR and mask & (_CREATE | _MOVED_TO):
                    try:
                        self._add(path)
                    except OSError:
                        continue
        if self._changes:
            self._send({"changes": self._changes})
        return True

    def _report_all(self) -> None:
        """Report all changes so far, and then that these were all."""
        for _ in range(_MAX_READS):
            if not self.read_events():
                break
        if self._credit > 0:
            self._all_requested = False
            self._send({"changes": [], "all": True})

    def _send(self, report: dict[str, Any]) -> None:
        payload = dumps(report).encode()
        self._credit -= frames.cost(payload)  # exactly what the engine counts, or one side would wait forever
        self._agent.send(frames.encode(self._operation, frames.EVENT, payload))
        if self._credit <= 0:  # out of credit: let the kernel's queue overflow, and report that later
            self._agent.unwatch(self._fd)

    def _report_event(self, mask: int, cookie: int, path: str) -> None:
        """Report an event; a temporary file that replaces its target counts as a write to the target."""
        name = os.path.basename(path)
        if atomic_writes.is_temporary_name(name):
            self._replacing = cookie, atomic_writes.changes_of(name)
        elif cookie and cookie == self._replacing[0]:
            for kind in self._replacing[1]:
                self._report(kind, path)
        else:
            for bits, kind in _KINDS:
                if mask & bits:
                    self._report(kind, path)

    def _report(self, kind: str, path: str) -> None:
        self._changes.append({"kind": kind, "path": path})
