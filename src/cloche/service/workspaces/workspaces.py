"""Persistent workspaces: files that outlive their sandbox until they are removed or stay unused for too long."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from time import time

from cloche.clock import earlier
from cloche.errors import Gone, Refused, SandboxFailed
from cloche.model.network import Network
from cloche.model.network_headers import named_secrets
from cloche.policy.caller import Caller
from cloche.service.identity import new_id
from cloche.service.verbs import verb
from cloche.service.workspaces import disk
from cloche.service.workspaces.disk import About, Damaged, SavedEntry

log = logging.getLogger("cloche.workspaces")

_REMOVED = "removed-"  # prefix of a folder that is being removed


class Workspace:
    def __init__(self, folder: Path, about: About) -> None:
        self.folder, self.about = folder, about
        self.id, self.owner = about.id, about.owner
        self.sandbox: str | None = None  # the one that has it open

    @property
    def network(self) -> Network:
        """The policy of the sandbox that used it last, without the secrets whose values are not on this disk."""
        lost = set(self.lost_secrets)
        secrets = {name: each for name, each in self.about.network.get("secrets", {}).items() if name not in lost}
        headers = {
            host: {name: text for name, text in texts.items() if lost.isdisjoint(named_secrets([text]))}
            for host, texts in self.about.network.get("headers", {}).items()
        }
        return Network(**{**self.about.network, "secrets": secrets, "headers": headers})

    @property
    def lost_secrets(self) -> tuple[str, ...]:
        """The names of that policy's secrets, but for those that the server stores."""
        return tuple(name for name, each in self.about.network.get("secrets", {}).items() if not each.get("stored"))


class Workspaces:
    """All workspaces of this server; each is a folder in the server's data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_id: dict[str, Workspace] = {}

    async def load(self) -> None:
        """Read the folder, and remove the leftovers of a crash."""
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
                about = disk.read_about(folder)
                if about.id != folder.name:
                    raise Damaged("it belongs to another workspace")
            except Damaged as problem:
                log.error("the workspace in %s cannot be opened: %s", folder, problem)
                continue
            found.append((about, folder))
        return found

    async def begin(self, owner: str, sandbox: str) -> tuple[Workspace, dict[str, SavedEntry]]:
        """Make an empty workspace, open for a sandbox."""
        now = time()
        about = About(id=new_id("wsp", now), owner=owner, created=now, saved=now, opened=now, sandbox=sandbox)
        workspace = Workspace(self._folder / about.id, about)
        workspace.sandbox = sandbox
        try:
            await asyncio.to_thread(_make, workspace)
        except OSError as problem:
            raise disk.problem_of(problem) from problem
        self._by_id[workspace.id] = workspace
        return workspace, {}

    async def open(self, owner: str, identity: str, sandbox: str) -> tuple[Workspace, dict[str, SavedEntry]]:
        """Open a workspace for a sandbox, which is then the only one that has it."""
        workspace = self.owned_by(owner, identity)
        if workspace.sandbox is not None:
            raise Refused(
                f"The workspace is open in the sandbox {workspace.sandbox}.", hint="End that sandbox, or work in it."
            )
        workspace.sandbox = sandbox
        try:
            return workspace, await asyncio.to_thread(_open, workspace, sandbox)
        except BaseException as problem:
            workspace.sandbox = None
            if isinstance(problem, Damaged | OSError):
                log.error("the workspace in %s cannot be opened: %s", workspace.folder, problem)
                raise SandboxFailed("The workspace is damaged.", hint="The server's log has the reason.") from problem
            raise

    async def release(self, workspace: Workspace, is_new: bool = False) -> None:
        """Close a workspace for its sandbox.  One that `is_new` was never used, and is removed."""
        workspace.sandbox = None
        if is_new:
            await self._remove(workspace)

    @verb("read")
    def find(self, caller: Caller, identity: str) -> Workspace:
        return self.owned_by(caller.owner, identity)

    def owned_by(self, owner: str, identity: str) -> Workspace:
        """The owner's workspace.  Those of others do not exist for the owner."""
        found = self._by_id.get(identity)
        if found is None or found.owner != owner:
            raise Gone("There is no such workspace.", hint="GET /v1/workspaces lists your workspaces.")
        return found

    @verb("read")
    def list(self, caller: Caller, limit: int, after: str | None) -> tuple[list[Workspace], str | None]:
        """A page of the caller's workspaces, newest first, and where the next page begins."""
        names = sorted((name for name, found in self._by_id.items() if found.owner == caller.owner), reverse=True)
        rest = [name for name in names if after is None or name < after]
        page = rest[:limit]
        return [self._by_id[name] for name in page], page[-1] if len(rest) > limit else None

    @verb("run")
    async def remove(self, caller: Caller, identity: str) -> None:
        """Remove a workspace and its files, unless a sandbox has it open."""
        await self.discard(caller.owner, identity)

    async def discard(self, owner: str, identity: str) -> None:
        workspace = self.owned_by(owner, identity)
        if workspace.sandbox is not None:
            raise Refused(f"The workspace is open in the sandbox {workspace.sandbox}.", hint="End that sandbox first.")
        await self._remove(workspace)

    async def remove_old(self, age_s: float) -> None:
        """Remove workspaces that were neither opened nor changed for this long."""
        before = earlier() - age_s
        for workspace in list(self._by_id.values()):
            about = workspace.about
            if workspace.sandbox is None and max(about.saved, about.opened) < before:
                log.info("workspace %s is removed: it was not opened for %d days", about.id, age_s // 86400)
                await self._remove(workspace)

    async def _remove(self, workspace: Workspace) -> None:
        del self._by_id[workspace.id]  # from here on it cannot be opened
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
        disk.write(workspace.folder, workspace.about, {}, ())
    except BaseException:
        shutil.rmtree(workspace.folder, ignore_errors=True)
        raise


def _open(workspace: Workspace, sandbox: str) -> dict[str, SavedEntry]:
    _, tree = disk.read(workspace.folder)
    disk.sweep(workspace.folder, disk.contents_of(tree))
    workspace.about = replace(workspace.about, opened=time(), sandbox=sandbox)
    try:
        disk.write(workspace.folder, workspace.about, tree, ())
    except OSError as problem:  # a full disk does not keep the files from being read
        log.warning("could not record that workspace %s was opened: %s", workspace.id, problem.strerror)
    return tree


def _remove(folder: Path) -> None:
    # Renamed first, so that a half-removed folder is not taken for a workspace after a crash.
    doomed = folder.with_name(f"{_REMOVED}{token_hex(8)}")
    os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)
