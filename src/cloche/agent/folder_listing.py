"""Lists folders, as fast as the engine grants credit."""

from __future__ import annotations

import os

from cloche.agent import atomic_writes
from cloche.agent.file_entries import describe
from cloche.agent.paths import resolve
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.agent.main import Agent

MAX_LISTING = frames.WINDOW // 2  # bytes of one listing
_BATCH = 100  # entries in one frame: a path takes at most 24 kB when escaped, so they fit


class FolderListing:
    """A folder's entries, sent as fast as the engine grants credit."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation, self._request = agent, operation, request
        self._found = _walk(resolve(agent, request["path"]), int(request.get("depth", 1)))
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
                batch.append(describe(path, self._request))
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
