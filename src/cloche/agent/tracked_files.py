"""Versions of all files that a checkpoint covers: the workspace, and the rest of the sandbox's root.

The two are kept apart, because a branch may have a workspace of its own, while the rest is always shared.  Only a wall
that gives each sandbox a root of its own knows the rest; elsewhere there is none.
"""

from __future__ import annotations

import os
import stat as modes

from cloche.agent.versions import Versions, mapped
from cloche.agent.versions.compare import MAX_LISTED
from cloche.agent.versions.tree_walk import TreePosition, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STORE = "rest"  # the folder of the store for versions of the rest
_UNTRACKED = ("tmp", "run")  # as on any host, their files are not meant to last


class TrackedFiles:
    """The files of one sandbox; `rest` is its root without anything that is mounted in it, or None."""

    def __init__(self, home: str, store: int, rest: int | None) -> None:
        self._home, self._store, self._rest = os.open(home, _FOLDER), store, rest
        self._left_out = frozenset((os.path.basename(home), *_UNTRACKED))
        self._rest_store: int | None = None  # opened for the first version: a session begins on a full disk as well

    def versions(self, asleep: frozenset[str] | None = frozenset()) -> FileVersions:
        """Open the versions, with a list of the files that programs may change unnoticed, through mappings.

        The processes in `asleep` write nothing.  None: nothing will be read or written but the store.
        """
        inodes = frozenset[int]() if asleep is None else mapped(self._home, asleep)
        workspace = Versions(self._home, self._store, inodes)
        rest_store = self._open_rest_store(make=asleep is not None)
        if self._rest is None or rest_store is None:
            return FileVersions(workspace, None)
        return FileVersions(workspace, Versions(self._rest, rest_store, inodes, self._left_out))

    def _open_rest_store(self, *, make: bool) -> int | None:
        if self._rest_store is None and self._rest is not None:
            try:
                if make:
                    os.mkdir(_STORE, 0o700, dir_fd=self._store)
            except FileExistsError:
                pass  # made by a fork of the agent
            try:
                self._rest_store = os.open(_STORE, _FOLDER, dir_fd=self._store)
            except FileNotFoundError:
                pass  # there is no version yet, and so nothing to forget
        return self._rest_store

    def are_few(self, most_files: int, most_bytes: int) -> bool:
        """Say whether there are no more files than that."""
        for top, left_out in ((self._home, frozenset[str]()), (self._rest, self._left_out)):
            if top is None:
                continue
            try:
                with TreePosition(top, 0o500, left_out) as place:
                    for _, _, status in walk(place):
                        most_files -= 1
                        most_bytes -= status.st_size if modes.S_ISREG(status.st_mode) else 0
                        if most_files < 0 or most_bytes < 0:
                            return False
            except OSError:
                return False
            if place.unread:
                return False
        return True


class FileVersions:
    """The operations on both trees, under the name of one version."""

    def __init__(self, workspace: Versions, rest: Versions | None) -> None:
        self._workspace, self._rest = workspace, rest

    def take(self, name: str) -> dict[str, Any]:
        """Record all files under a name."""
        taken: dict[str, Any] = self._workspace.take(name)
        if self._rest is None:
            return taken
        try:
            return _sum(taken, self._rest.take(name))
        except OSError:
            self._workspace.forget(name)
            raise

    def restore(self, name: str) -> dict[str, Any]:
        """Restore all files as far as possible; `problem` is the first failure."""
        restored = self._workspace.restore(name)
        return restored if self._rest is None else _sum(restored, self._rest.restore(name))

    def changes(self, name: str) -> dict[str, Any]:
        """Return the paths that differ: those in the workspace are relative, the others absolute."""
        found = self._workspace.changes(name)
        if self._rest is not None:
            outside = self._rest.changes(name)
            for kind in ("created", "changed", "removed"):
                found[kind] = (found[kind] + [f"/{path}" for path in outside[kind]])[:MAX_LISTED]
                found["totals"][kind] += outside["totals"][kind]
        return found

    def copy(self, name: str | None, folder: str) -> dict[str, Any]:
        """Write the workspace of a version, or the live one, into a new folder, and the rest of a version beside it."""
        copied = _copy(self._workspace, name, folder)
        if self._rest is None or name is None or not self._rest.has_files(name):
            return copied
        return _sum(copied, _copy(self._rest, name, beside(folder)))

    def merge(self, source: int, name: str) -> dict[str, Any]:
        """Make the workspace equal to the folder `source`."""
        merged = self._workspace.merge(source, name)
        self._workspace.forget(name)
        return merged

    def forget(self, name: str) -> None:
        """Remove a version."""
        self._workspace.forget(name)
        if self._rest is not None:
            self._rest.forget(name)


def beside(folder: str) -> str:
    """Where `copy` writes the files outside of the workspace."""
    return f"{folder}.root"


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _copy(versions: Versions, name: str | None, folder: str) -> dict[str, Any]:
    os.makedirs(folder)
    to = os.open(folder, _FOLDER)
    try:
        return versions.copy(name, to)
    finally:
        os.close(to)


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Add the counts, and keep the first problem."""
    return {name: one[name] or other[name] if name == "problem" else one[name] + other[name] for name in one}
