"""Keeping a sandbox's files: saved while it lives, as far as they have changed, and written into the next one.

Files are listed and read by the agent, inside the wall.  What it says a path is is a line in a manifest, and never a
name on this host.
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
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.workspaces import disk
from cloche.service.workspaces.disk import Draft, Kept
from cloche.service.workspaces.parallel import in_parallel
from cloche.service.workspaces.restore import Filling
from cloche.service.workspaces.scan import Found, Signature, inventory
from cloche.service.workspaces.workspaces import Workspace

log = logging.getLogger("cloche.workspaces")

_COARSE = 5  # CLOCK_REALTIME_COARSE: what the kernel stamps files with
_BUSY_S, _IDLE_S, _SELDOM_S = 3.0, 30.0, 60.0  # how often it is saved without being asked
_SHARE = 0.003  # of the time that this may take: a sandbox must not seem busy for it
_PATIENCE_S = 30.0  # for a save that nobody has asked for
_ANOTHER = (errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)


class Keeping:
    """The files of one living sandbox, and the workspace that they are kept in."""

    def __init__(self, box: AsyncSandbox, workspace: Workspace, tree: dict[str, Kept]) -> None:
        self.workspace = workspace
        self.tell: Callable[[str, dict[str, Any]], None] | None = None  # whoever follows the sandbox
        self._box, self._tree = box, tree
        self._known: dict[str, tuple[Signature, str]] = {}  # files that need not be read again, and their contents
        self._turn = asyncio.Lock()
        self._asked = self._done = 0
        self._problem = ""  # the last that was told
        self._closed = False
        self._saved, self._took_s = time.monotonic(), 0.0  # when it was last saved, and how long that took

    async def save(self) -> None:
        """Have all that is in the sandbox now on the server's disk; raises what keeps it from being there."""
        self._asked += 1
        # In a task of its own: what is written in a thread goes on, whoever stops waiting for it.
        await asyncio.shield(asyncio.create_task(self._save_in_turn(self._asked)))

    async def save_if_possible(self) -> None:
        """The same where nobody waits for it; whoever follows the sandbox learns of problems."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.save()
        except (ClocheError, TimeoutError):
            pass

    async def save_now_and_then(self, is_busy: Callable[[], bool]) -> None:
        """What programs write on their own is saved every few seconds."""
        while True:
            await asyncio.sleep(_BUSY_S)
            if self._box.paused:
                continue
            pause = min(max(_BUSY_S, self._took_s / _SHARE), _SELDOM_S) if is_busy() else _IDLE_S
            if time.monotonic() >= self._saved + pause:
                await self.save_if_possible()

    async def close(self) -> None:
        """The sandbox has ended: save no more."""
        async with self._turn:
            self._closed = True

    async def _save_in_turn(self, wanted: int) -> None:
        async with self._turn:
            if self._done >= wanted:
                return
            if self._closed:
                raise Gone("The sandbox has ended.", hint="Make a new one, with this workspace.")
            covered, begin = self._asked, time.monotonic()
            try:
                await self._save()
            except OSError as problem:
                told = problem if isinstance(problem, ClocheError) else disk.problem_of(problem)
                self._complain(told)
                raise told from problem
            except ClocheError as problem:
                self._complain(problem)
                raise
            self._done, self._problem = covered, ""
            self._saved = time.monotonic()
            self._took_s = self._saved - begin

    def _complain(self, problem: ClocheError) -> None:
        """Have whoever follows the sandbox know, once."""
        if problem.message != self._problem:
            self._problem = problem.message
            log.warning("workspace %s is not saved: %s", self.workspace.id, problem)
            if self.tell is not None:
                self.tell("workspace.problem", {"message": problem.message, "hint": problem.hint})

    async def _save(self) -> None:
        since = time.clock_gettime_ns(_COARSE)
        found, unread = await inventory(self._box)
        tree: dict[str, Kept] = {}
        known: dict[str, tuple[Signature, str]] = {}
        changed: list[Found] = []
        for each in found:
            before = self._known.get(each.path)
            if each.kept.kind != "file":
                tree[each.path] = each.kept
            elif before is not None and before[0] == each.signature and each.sure:
                tree[each.path] = each.kept._replace(content=before[1])
                known[each.path] = before
            else:
                changed.append(each)
        for path, kept in self._tree.items() if unread else ():
            if path not in tree and any(path.startswith(f"{folder}/") for folder in unread if folder in tree):
                tree[path] = kept  # in a folder that could not be looked into: as it was
        new: set[str] = set()
        try:
            await in_parallel(changed, lambda each: self._keep(each, since, tree, known, new))
            if tree != self._tree:
                await self._commit(tree, new)
        except BaseException:
            await asyncio.to_thread(disk.forget, self.workspace.folder, new)
            raise
        self._known = known

    async def _commit(self, tree: dict[str, Kept], new: set[str]) -> None:
        size, files = _measure(tree)
        if size > self._box.limits.disk_bytes:
            raise FileProblem(
                f"The workspace could not be saved: its files have {size:,} bytes, more than the sandbox's disk.",
                "Delete files, or files with holes; what was saved before is safe.",
                errno.EDQUOT,
            )
        folder = self.workspace.folder
        about = replace(self.workspace.about, saved=time.time(), bytes=size, files=files)
        await asyncio.to_thread(disk.write, folder, about, tree, new)
        needed = disk.contents_of(tree)
        unneeded = disk.contents_of(self._tree) - needed | new - needed
        self.workspace.about, self._tree = about, tree
        new.clear()
        await asyncio.to_thread(disk.forget, folder, unneeded)

    async def _keep(
        self,
        found: Found,
        since: int,
        tree: dict[str, Kept],
        known: dict[str, tuple[Signature, str]],
        new: set[str],
    ) -> None:
        """Have the contents of a file, and remember what they were a sign of."""
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
            return  # it went away meanwhile
        except FileProblem as problem:
            if problem.errno in _ANOTHER:  # it is something else by now, and the next time it is seen as that
                return
            raise
        tree[found.path] = found.kept._replace(content=content, size=length)
        # Written to after the listing it has a later stamp; unless its stamp was that of the same moment already.
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
        """Write what is kept into the sandbox, which is fresh; `mounted` are folders of the host in it."""
        await Filling(self._box, self.workspace.folder, self.workspace.about, self._tree).fill(mounted)
        if self._tree:
            await self._learn()

    async def _learn(self) -> None:
        """Nobody has changed anything yet: what there is now is what was kept."""
        since = time.clock_gettime_ns(_COARSE)
        for each in (await inventory(self._box))[0]:
            kept = self._tree.get(each.path)
            if kept is None or kept.content is None or (kept.kind, kept.size) != ("file", each.kept.size):
                continue
            if each.kept.kind == "file" and each.signature[2] < since and each.sure:
                self._known[each.path] = each.signature, kept.content


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
    """Keep what there is and the rest of it; its name, whether that is new, and its size."""
    draft = _write(draft, workspace, pieces)
    try:
        return *draft.keep(), draft.size
    except BaseException:
        draft.drop()
        raise


def _measure(tree: dict[str, Kept]) -> tuple[int, int]:
    files = [kept for kept in tree.values() if kept.kind == "file"]
    return sum(kept.size for kept in files), len(files)
