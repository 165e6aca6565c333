"""Telling the engine what changes in a folder."""

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
_MOST_READS = 64  # more than what the kernel keeps for one watch

_inotify_init1 = libc.function("inotify_init1", "l")
_inotify_add_watch = libc.function("inotify_add_watch", "lzl")


class FolderWatch:
    """A folder (and those below it, when asked) being watched."""

    def __init__(self, agent: Agent, operation: int, path: str, recursive: bool) -> None:
        self._agent, self._operation, self._recursive = agent, operation, recursive
        self._folders: dict[int, str] = {}
        self._top = path
        self._publishing: tuple[int, tuple[str, ...]] = 0, ()  # the rename of a draft: what its other half means
        self._credit = frames.WINDOW // 2  # one batch of events may pass it
        self._fd = _inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(libc.get_errno(), "no more folders can be watched")
        try:
            self._add(path)
        except OSError:
            os.close(self._fd)
            raise
        self._asked = False  # somebody waits for all that has happened by now
        agent.watch(self._fd, self._readable)
        agent.watching.add(self)
        agent.send(frames.encode_json(operation, frames.STARTED, {}))

    def receive(self, kind: int, payload: bytes) -> None:
        """Credit for more, the wish to know all that has happened by now, or that it is enough."""
        if kind == frames.CREDIT:
            if self._credit <= 0:
                self._agent.watch(self._fd, self._readable)
            self._credit += int.from_bytes(payload, "big")
        elif kind == frames.INPUT:
            self._asked = True
        if self._asked and kind in (frames.CREDIT, frames.INPUT):
            self._tell_the_rest()
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop watching."""
        self._agent.unwatch(self._fd)
        self._agent.watching.discard(self)
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
        self.look()

    def look(self) -> bool:
        """Tell what has happened; False when nothing has, or nobody listens."""
        if self._credit <= 0:
            return False
        try:
            data = os.read(self._fd, 16 << 10)  # so that one read is far less than the window, however it is escaped
        except BlockingIOError:
            return False
        position = 0
        self._told: list[dict[str, str]] = []
        while position < len(data):
            number, mask, cookie, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
            if mask & _OVERFLOW:
                self._tell("overflow", self._top)
            elif mask & _IGNORED:
                self._folders.pop(number, None)
            elif number in self._folders:
                path = os.path.join(self._folders[number], name) if name else self._folders[number]
                self._tell_all(mask, cookie, path)
                if self._recursive and mask & _ISDIR and mask & (_CREATE | _MOVED_TO):
                    try:
                        self._add(path)
                    except OSError:
                        continue
        if self._told:
            self._send({"changes": self._told})
        return True

    def _tell_the_rest(self) -> None:
        """All that has happened by now, and that this was all."""
        for _ in range(_MOST_READS):
            if not self.look():
                break
        if self._credit > 0:
            self._asked = False
            self._send({"changes": [], "all": True})

    def _send(self, told: dict[str, Any]) -> None:
        payload = dumps(told).encode()
        self._credit -= frames.cost(payload)  # exactly what the engine counts, or one of us would wait for ever
        self._agent.send(frames.encode(self._operation, frames.EVENT, payload))
        if self._credit <= 0:  # nobody listens: let the kernel's queue overflow, and say so when somebody does
            self._agent.unwatch(self._fd)

    def _tell_all(self, mask: int, cookie: int, path: str) -> None:
        """Everything that an event says; a draft that takes a file's place is told as if that was written."""
        name = os.path.basename(path)
        if atomic_writes.is_draft(name):
            self._publishing = cookie, atomic_writes.told_of(name)
        elif cookie and cookie == self._publishing[0]:
            for kind in self._publishing[1]:
                self._tell(kind, path)
        else:
            for bits, kind in _KINDS:
                if mask & bits:
                    self._tell(kind, path)

    def _tell(self, kind: str, path: str) -> None:
        self._told.append({"kind": kind, "path": path})
