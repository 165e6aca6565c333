"""Persistent workspaces: files that outlive their sandbox, until they are removed or nobody wants them for long."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from time import time

from cloche.errors import Gone, Refused, SandboxFailed
from cloche.service import manifest
from cloche.service.identity import new_id
from cloche.service.manifest import About, Damaged, Kept

log = logging.getLogger("cloche.workspaces")

_REMOVED = "removed-"  # how the name of a folder begins that is being removed


class Workspace:
    """One workspace, and the sandbox that has it open."""

    def __init__(self, folder: Path, about: About) -> None:
        self.folder, self.about = folder, about
        self.id, self.owner = about.id, about.owner
        self.sandbox: str | None = None  # that has it open


class Workspaces:
    """All workspaces of this server; what is in the folder is what there is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_id: dict[str, Workspace] = {}

    async def load(self) -> None:
        """Find those that there are, and clear away what a crash has left."""
        for about, folder in await asyncio.to_thread(self._look):
            self._by_id[about.id] = Workspace(folder, about)

    def _look(self) -> list[tuple[About, Path]]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = []
        for folder in self._folder.iterdir():
            if folder.name.startswith(_REMOVED) or not any(folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            try:
                about = manifest.read_about(folder)
                if about.id != folder.name:
                    raise Damaged("it is another workspace's")
            except Damaged as problem:
                log.error("the workspace in %s cannot be opened: %s", folder, problem)
                continue
            found.append((about, folder))
        return found

    async def begin(self, owner: str, sandbox: str) -> tuple[Workspace, dict[str, Kept]]:
        """A new one, with nothing in it, open for a sandbox."""
        now = time()
        about = About(id=new_id("wsp", now), owner=owner, created=now, saved=now, opened=now, sandbox=sandbox)
        workspace = Workspace(self._folder / about.id, about)
        workspace.sandbox = sandbox
        try:
            await asyncio.to_thread(_make, workspace)
        except OSError as problem:
            raise manifest.problem_of(problem) from problem
        self._by_id[workspace.id] = workspace
        return workspace, {}

    async def open(self, owner: str, identity: str, sandbox: str) -> tuple[Workspace, dict[str, Kept]]:
        """One that is there, for a sandbox, which is then the only one that has it."""
        workspace = self.find(owner, identity)
        if workspace.sandbox is not None:
            raise Refused(
                f"The workspace is open in the sandbox {workspace.sandbox}.", hint="End that one, or work in it."
            )
        workspace.sandbox = sandbox
        try:
            return workspace, await asyncio.to_thread(_open, workspace, sandbox)
        except BaseException as problem:
            workspace.sandbox = None
            if isinstance(problem, Damaged | OSError):
                log.error("the workspace in %s cannot be opened: %s", workspace.folder, problem)
                raise SandboxFailed("The workspace is damaged.", hint="The server's log says more.") from problem
            raise

    async def release(self, workspace: Workspace, is_new: bool = False) -> None:
        """No sandbox has it open any more; one that `is_new` was never used, and goes."""
        workspace.sandbox = None
        if is_new:
            await self._remove(workspace)

    def find(self, owner: str, identity: str) -> Workspace:
        """A workspace of this owner's; others' do not exist."""
        found = self._by_id.get(identity)
        if found is None or found.owner != owner:
            raise Gone("There is no such workspace.", hint="GET /v1/workspaces lists those that there are.")
        return found

    def list(self, owner: str, limit: int, after: str | None) -> tuple[list[Workspace], str | None]:
        """A page of an owner's, newest first."""
        names = sorted((name for name, found in self._by_id.items() if found.owner == owner), reverse=True)
        rest = [name for name in names if after is None or name < after]
        page = rest[:limit]
        return [self._by_id[name] for name in page], page[-1] if len(rest) > limit else None

    async def remove(self, owner: str, identity: str) -> None:
        """Remove one with all that is in it."""
        workspace = self.find(owner, identity)
        if workspace.sandbox is not None:
            raise Refused(f"The workspace is open in the sandbox {workspace.sandbox}.", hint="End that one first.")
        await self._remove(workspace)

    async def remove_old(self, age_s: float) -> None:
        """Remove those that nobody has opened or changed for so long."""
        before = time() - age_s
        for workspace in list(self._by_id.values()):
            about = workspace.about
            if workspace.sandbox is None and max(about.saved, about.opened) < before:
                log.info("workspace %s is removed: nobody has opened it for %d days", about.id, age_s // 86400)
                await self._remove(workspace)

    async def _remove(self, workspace: Workspace) -> None:
        del self._by_id[workspace.id]  # from here on nobody can open it
        try:
            await asyncio.to_thread(_remove, workspace.folder)
        except OSError as problem:
            self._by_id[workspace.id] = workspace
            raise SandboxFailed(
                f"The workspace could not be removed: {problem.strerror}.", hint="Try again."
            ) from problem


def _make(workspace: Workspace) -> None:
    workspace.folder.mkdir(mode=0o700, parents=True)
    try:
        manifest.write(workspace.folder, workspace.about, {}, ())
    except BaseException:
        shutil.rmtree(workspace.folder, ignore_errors=True)
        raise


def _open(workspace: Workspace, sandbox: str) -> dict[str, Kept]:
    _, tree = manifest.read(workspace.folder)
    manifest.sweep(workspace.folder, manifest.contents_of(tree))
    workspace.about = replace(workspace.about, opened=time(), sandbox=sandbox)
    try:
        manifest.write(workspace.folder, workspace.about, tree, ())
    except OSError as problem:  # files can be had all the same, also from a disk that is full
        log.warning("that workspace %s was opened could not be written down: %s", workspace.id, problem.strerror)
    return tree


def _remove(folder: Path) -> None:
    # Renamed first: what a crash leaves half removed is not taken for a workspace.
    doomed = folder.with_name(f"{_REMOVED}{token_hex(8)}")
    os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)
