"""Saves the files of a sandbox while it lives.  Each save reads only the files that have changed since the last one.

The agent lists and reads the files, inside the wall.  A path that it reports becomes a line in the manifest, and never
a name on this host.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cloche.engine.workspace import contents
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone
from cloche.model.network import Network
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.workspaces import disk
from cloche.service.workspaces.disk import Draft, SavedEntry
from cloche.service.workspaces.parallel import in_parallel
from cloche.service.workspaces.restore import WorkspaceRestorer
from cloche.service.workspaces.scan import ScannedEntry, Signature, inventory
from cloche.service.workspaces.workspaces import Workspace

log = logging.getLogger("cloche.workspaces")

_COARSE = 5  # CLOCK_REALTIME_COARSE, the clock that the kernel takes the time stamps of files from
_BUSY_S, _IDLE_S, _SELDOM_S = 3.0, 30.0, 60.0  # pauses between periodic saves
_SHARE = 0.003  # the part of the time that periodic saves may take: they must not make a sandbox look busy
_PATIENCE_S = 30.0  # for a save that no request waits for
_REPLACED = (errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)  # the path is no longer a regular file


class WorkspaceSaver:
    """Saves the files of one living sandbox in its workspace."""

    def __init__(self, box: AsyncSandbox, workspace: Workspace, tree: dict[str, SavedEntry]) -> None:
        self.workspace = workspace
        self.on_problem: Callable[[str, dict[str, Any]], None] | None = None  # adds a notice to the sandbox's feed
        self._box, self._tree = box, tree
        self._known: dict[str, tuple[Signature, str]] = {}  # unchanged files, which need no reading, and their contents
        self._turn = asyncio.Lock()
        self._requested = self._done = 0
        self._problem = ""  # the last one that was reported
        self._closed = False
        self._saved_network = workspace.about.network
        self._saved, self._took_s = time.monotonic(), 0.0  # when the last save ended, and how long it took

    async def save(self) -> None:
        """Bring everything that is in the sandbox now to the server's disk; raise the problem if that fails."""
        self._requested += 1
        # In a task of its own: a thread that writes goes on even when the caller stops waiting.
        await asyncio.shield(asyncio.create_task(self._save_in_turn(self._requested)))

    def note_network(self, network: Network) -> None:
        """Let the next save keep the sandbox's policy, without the values of its secrets."""
        self.workspace.about = replace(self.workspace.about, network=network.as_dict())

    async def save_if_possible(self) -> None:
        """Save where no request waits for it.  Problems are reported to the sandbox's feed."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.save()
        except (ClocheError, TimeoutError):
            pass

    async def save_periodically(self, is_busy: Callable[[], bool]) -> None:
        """Save every few seconds, because programs write files without any request."""
        while True:
            await asyncio.sleep(_BUSY_S)
            if self._box.paused:
                continue
            pause = min(max(_BUSY_S, self._took_s / _SHARE), _SELDOM_S) if is_busy() else _IDLE_S
            if time.monotonic() >= self._saved + pause:
                await self.save_if_possible()

    async def close(self) -> None:
        """Save no more, because the sandbox has ended."""
        async with self._turn:
            self._closed = True

    async def _save_in_turn(self, wanted: int) -> None:
        async with self._turn:
            if self._done >= wanted:
                return
            if self._closed:
                raise Gone("The sandbox has ended.", hint="Make a new one, with this workspace.")
            covered, begin = self._requested, time.monotonic()
            try:
                await self._save()
            except OSError as problem:
                error = problem if isinstance(problem, ClocheError) else disk.problem_of(problem)
                self._report(error)
                raise error from problem
            except ClocheError as problem:
                self._report(problem)
                raise
            self._done, self._problem = covered, ""
            self._saved = time.monotonic()
            self._took_s = self._saved - begin

    def _report(self, problem: ClocheError) -> None:
        """Report a problem to the sandbox's feed, once."""
        if problem.message != self._problem:
            self._problem = problem.message
            log.warning("workspace %s is not saved: %s", self.workspace.id, problem)
            if self.on_problem is not None:
                self.on_problem("workspace.problem", {"message": problem.message, "hint": problem.hint})

    async def _save(self) -> None:
        since = time.clock_gettime_ns(_COARSE)
        found, unread = await inventory(self._box)
        tree: dict[str, SavedEntry] = {}
        known: dict[str, tuple[Signature, str]] = {}
        changed: list[ScannedEntry] = []
        for each in found:
            before = self._known.get(each.path)
            if each.entry.kind != "file":
                tree[each.path] = each.entry
            elif before is not None and before[0] == each.signature and each.sure:
                tree[each.path] = each.entry._replace(content=before[1])
                known[each.path] = before
            else:
                changed.append(each)
        for path, entry in self._tree.items() if unread else ():
            if path not in tree and any(path.startswith(f"{folder}/") for folder in unread if folder in tree):
                tree[path] = entry  # its folder could not be read: keep the last known state
        new: set[str] = set()
        try:
            await in_parallel(changed, lambda each: self._save_file(each, since, tree, known, new))
            if tree != self._tree or self._saved_network != self.workspace.about.network:
                await self._commit(tree, new)
        except BaseException:
            await asyncio.to_thread(disk.forget, self.workspace.folder, new)
            raise
        self._known = known

    async def _commit(self, tree: dict[str, SavedEntry], new: set[str]) -> None:
        size, files = _measure(tree)
        if size > self._box.limits.disk_bytes:
            raise FileProblem(
                f"The workspace could not be saved: its files have {size:,} bytes, more than the sandbox's disk.",
                "Delete files, or files with holes; what was saved before is safe.",
                errno.EDQUOT,
            )
        folder = self.workspace.folder
        network = self.workspace.about.network
        about = replace(self.workspace.about, saved=time.time(), bytes=size, files=files)
        await asyncio.to_thread(disk.write, folder, about, tree, new)
        needed = disk.contents_of(tree)
        unneeded = disk.contents_of(self._tree) - needed | new - needed
        about = replace(about, network=self.workspace.about.network)  # it may have changed meanwhile
        self.workspace.about, self._tree, self._saved_network = about, tree, network
        new.clear()
        await asyncio.to_thread(disk.forget, folder, unneeded)

    async def _save_file(
        self,
        found: ScannedEntry,
        since: int,
        tree: dict[str, SavedEntry],
        known: dict[str, tuple[Signature, str]],
        new: set[str],
    ) -> None:
        """Save the contents of one file, and remember the signature that they belong to."""
        size, _, changed, _ = found.signature
        if size > self._box.limits.disk_bytes:
            raise FileProblem(
                f"The workspace could not be saved: {found.path} is larger than the sandbox's disk.",
                "It has holes; delete it, or move it to temp/.",
                errno.EDQUOT,
            )
        try:
            content, length = await self._read(found.path, size, new)
        except FileMissing:
            return  # deleted since the listing
        except FileProblem as problem:
            if problem.errno in _REPLACED:  # something else has this path by now; the next save lists it as that
                return
            raise
        tree[found.path] = found.entry._replace(content=content, size=length)
        # A file that is written after the listing gets a later time stamp, unless its stamp was already of that moment.
        if changed < since and found.sure:
            known[found.path] = found.signature, content

    async def _read(self, path: str, size: int, new: set[str]) -> tuple[str, int]:
        pieces: list[bytes] = []
        waiting = 0
        draft: Draft | None = None
        try:
            async with contents(self._box, path, size) as reading:
                async for piece in reading:
                    pieces.append(piece)
                    waiting += len(piece)
                    if waiting >= disk.PIECE:
                        draft = await asyncio.to_thread(_write, draft, self.workspace, pieces)
                        pieces, waiting = [], 0
            content, is_new, length = await asyncio.to_thread(_finish, draft, self.workspace, pieces)
        except BaseException:
            if draft is not None:
                draft.drop()
            raise
        if is_new:
            new.add(content)
        return content, length

    async def fill(self, mounted: Sequence[str]) -> None:
        """Write the saved files into a fresh sandbox; `mounted` names the host's folders in it."""
        await WorkspaceRestorer(self._box, self.workspace.folder, self.workspace.about, self._tree).fill(mounted)
        if self._tree:
            await self._learn_signatures()

    async def _learn_signatures(self) -> None:
        """Note the signatures of the restored files: no program has run yet, so their contents are the saved ones."""
        since = time.clock_gettime_ns(_COARSE)
        for each in (await inventory(self._box))[0]:
            entry = self._tree.get(each.path)
            if entry is None or entry.content is None or (entry.kind, entry.size) != ("file", each.entry.size):
                continue
            if each.entry.kind == "file" and each.signature[2] < since and each.sure:
                self._known[each.path] = each.signature, entry.content


def _write(draft: Draft | None, workspace: Workspace, pieces: list[bytes]) -> Draft:
    draft = draft or Draft(workspace.folder)
    try:
        for piece in pieces:
            draft.write(piece)
    except BaseException:
        draft.drop()
        raise
    return draft


def _finish(draft: Draft | None, workspace: Workspace, pieces: list[bytes]) -> tuple[str, bool, int]:
    """Write the last pieces and keep the contents; return their name, whether it is new, and their size."""
    draft = _write(draft, workspace, pieces)
    try:
        return *draft.keep(), draft.size
    except BaseException:
        draft.drop()
        raise


def _measure(tree: dict[str, SavedEntry]) -> tuple[int, int]:
    files = [entry for entry in tree.values() if entry.kind == "file"]
    return sum(entry.size for entry in files), len(files)
