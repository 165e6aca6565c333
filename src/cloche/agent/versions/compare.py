"""Compares a tree with a version: which files were created, changed and removed since."""

from __future__ import annotations

import os
import stat as modes

from cloche.agent.versions.permissions import open_file
from cloche.agent.versions.sparse_data import are_equal
from cloche.agent.versions.tree import MAX_ENTRIES, entries, path, too_many
from cloche.agent.versions.tree_walk import TreePosition, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.agent.versions.index import Index
    from cloche.agent.versions.store import VersionStore
    from cloche.agent.versions.tree import File, Folder, Tree

    # Kind of change; the list of folders it belongs to, its folder's number in that list, its name, whether it is a
    # folder.
    Change = tuple[str, list[Folder], int, str, bool]

MAX_LISTED = 1000  # paths of one kind in a reply


def changes(store: VersionStore, index: Index, top: int, left_out: frozenset[str], tree: Tree) -> dict[str, Any]:
    """Return the first paths of each kind of change, and the totals."""
    found: dict[str, list[str]] = {"created": [], "changed": [], "removed": []}
    totals = dict.fromkeys(found, 0)
    for kind, folders, parent, name, is_folder in _changes(store, index, top, left_out, tree):
        totals[kind] += 1
        if len(found[kind]) < MAX_LISTED:
            found[kind].append(path(folders, parent, name) + "/" * is_folder)
    return {**{kind: sorted(paths) for kind, paths in found.items()}, "totals": totals}


def has_content(store: VersionStore, index: Index, folder: int, file: File, status: os.stat_result) -> bool:
    """Say whether a file or link has the version's content; mode and time do not count.

    A file that could not be read for the version counts as unchanged.
    """
    _, name, mode, _, size, content = file
    if modes.S_IFMT(status.st_mode) != modes.S_IFMT(mode):
        return False
    if content is None:
        return True
    try:
        if modes.S_ISLNK(mode):
            return os.readlink(name, dir_fd=folder) == content
        if status.st_size != size:
            return False
        known = index.content(status)
        if known is not None:
            return known == content
        live = open_file(folder, name)
    except OSError:
        return False
    try:
        stored = store.open(content)
        try:
            return are_equal(stored, live, size)
        finally:
            os.close(stored)
    finally:
        os.close(live)


def _changes(store: VersionStore, index: Index, top: int, left_out: frozenset[str], tree: Tree) -> Iterator[Change]:
    folders, left = tree[0], entries(tree)
    live: list[Folder] = [(0, "", 0, 0)]
    counterparts: list[int | None] = [0]  # for each live folder its number in the version
    with TreePosition(top, 0o500, left_out) as place:
        for count, (parent, name, status) in enumerate(walk(place)):
            if count >= MAX_ENTRIES:
                raise too_many(MAX_ENTRIES)
            is_folder = modes.S_ISDIR(status.st_mode)
            counterpart = counterparts[parent]
            then = left[counterpart].pop(name, None) if counterpart is not None else None
            if is_folder:
                live.append((parent, name, 0, 0))
                counterparts.append(then if isinstance(then, int) else None)
            if then is None:
                yield "created", live, parent, name, is_folder
            elif isinstance(then, int):
                # If a folder became a file, its former entries stay in `left` and are reported as removed.
                if not is_folder or modes.S_IMODE(status.st_mode) != folders[then][2]:
                    yield "changed", live, parent, name, is_folder
            elif status.st_mode != then[2] or not has_content(store, index, place.fd, then, status):
                yield "changed", live, parent, name, is_folder
    for parent, gone in enumerate(left):
        for name, then in gone.items():
            yield "removed", folders, parent, name, isinstance(then, int)
