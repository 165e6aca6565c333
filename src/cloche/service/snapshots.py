"""Snapshots: the files of a sandbox at one moment, for other sandboxes to begin with."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from secrets import token_hex
from time import time

from cloche.clock import earlier
from cloche.errors import Gone, InvalidRun, SandboxFailed
from cloche.policy.caller import Caller
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.lifecycle import Lifecycle
from cloche.service.reservations import Reservations
from cloche.service.snapshot_copies import SnapshotCopies
from cloche.service.verbs import verb
from cloche.service.workspaces import disk
from cloche.service.workspaces.disk import Damaged
from cloche.service.workspaces.save import WorkspaceSaver
from cloche.service.workspaces.workspaces import Workspaces

log = logging.getLogger("cloche.snapshots")

MOST = 1000  # of one owner


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a snapshot without reading its files."""

    id: str
    owner: str
    name: str
    sandbox: str  # the source
    created: float
    checkpoint: str = ""  # of the source, with the variables of Python
    reason: str = ""  # why there is no such checkpoint

    @property
    def note(self) -> str:
        """Whether the source can go back to this moment with its variables, in a sentence."""
        if self.checkpoint:
            return (
                f"While the sandbox {self.sandbox} lives, restoring its checkpoint {self.checkpoint} brings back the "
                "variables of Python, too."
            )
        return f"A restore within the sandbox cannot bring variables back either: {self.reason}." if self.reason else ""


class Snapshots:
    """All snapshots of this server."""

    def __init__(self, folder: Path, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._folder, self._list = folder, folder / "list"
        self._workspaces = Workspaces(folder / "files")
        self._known: dict[str, Snapshot] = {}
        self._places = Reservations(MOST, f"You have {MOST} snapshots already.", "Remove some of them.")
        self._copies = SnapshotCopies(lifecycle)
        self._being_read: Counter[str] = Counter()  # by how many new sandboxes; a removed one may still be read

    async def load(self) -> None:
        await asyncio.to_thread(self._folder.mkdir, 0o700, True, True)
        await self._workspaces.load()
        for snapshot in await asyncio.to_thread(self._read):
            try:
                self._workspaces.owned_by(snapshot.owner, snapshot.id)
            except Gone:
                continue
            self._known[snapshot.id] = snapshot

    @verb("run")
    async def take(self, caller: Caller, sandbox: str, name: str = "", *, keeps_memory: bool = True) -> Snapshot:
        """Keep the files of a sandbox as they are now.  A snapshot of the same name is replaced.

        With `keeps_memory`, the sandbox gets a checkpoint, with which it can go back to this moment itself.
        """
        _check(name)
        live = await self._lifecycle.find(caller, sandbox)
        with self._places.one(caller.owner, len(self.list(caller))):
            workspace, tree = await self._workspaces.begin(live.owner, live.id)
            try:
                async with live.used() as box:
                    await WorkspaceSaver(box, workspace, tree).save()
                    copy = await self._copies.keep(live, workspace.id) if keeps_memory else ("", "")
            except BaseException:
                await self._workspaces.release(workspace, is_new=True)
                raise
            await self._workspaces.release(workspace)
            before = [known for known in self.list(caller) if name and known.name == name]
            snapshot = Snapshot(workspace.id, live.owner, name, live.id, time(), *copy)
            self._known[snapshot.id] = snapshot
        for known in before:
            await self._remove(known)
        await self._write()
        live.happened("snapshot", {"snapshot": snapshot.id, "name": name})
        return snapshot

    async def fill(self, caller: Caller, identity: str, box: AsyncSandbox) -> None:
        """Write the files of a snapshot into a fresh sandbox."""
        snapshot = self.find(caller, identity)
        if snapshot is None:
            raise Gone(f"There is no snapshot {identity[:100]}.")
        workspace = self._workspaces.owned_by(caller.owner, snapshot.id)
        self._being_read[snapshot.id] += 1
        try:
            _, tree = await asyncio.to_thread(disk.read, workspace.folder)
            await WorkspaceSaver(box, workspace, tree).fill(())
        except Damaged as problem:
            log.error("the snapshot in %s cannot be read: %s", workspace.folder, problem)
            raise SandboxFailed("The snapshot is damaged.", hint="The server's log has the reason.") from problem
        finally:
            self._being_read[snapshot.id] -= 1
            await self._discard_unless_needed(snapshot)

    @verb("read")
    def find(self, caller: Caller, name: str) -> Snapshot | None:
        """A snapshot of the caller's, by its id or its name."""
        for known in self._known.values():
            if known.owner == caller.owner and name in (known.id, known.name):
                return known
        return None

    @verb("read")
    def list(self, caller: Caller) -> Sequence[Snapshot]:
        """The caller's snapshots, newest first."""
        found = [known for known in self._known.values() if known.owner == caller.owner]
        return sorted(found, key=lambda known: known.id, reverse=True)

    @verb("run")
    async def remove(self, caller: Caller, identity: str) -> None:
        """Remove a snapshot.  Sandboxes that began with it stay."""
        snapshot = self.find(caller, identity)
        if snapshot is None:
            raise Gone(f"There is no snapshot {identity[:100]}.")
        await self._remove(snapshot)
        await self._write()

    async def remove_old(self, age_s: float) -> None:
        before = earlier() - age_s
        old = [known for known in self._known.values() if known.created < before]
        for snapshot in old:
            if snapshot.id in self._known:  # its owner may have removed it meanwhile
                await self._remove(snapshot)
        if old:
            await self._write()

    async def _remove(self, snapshot: Snapshot) -> None:
        del self._known[snapshot.id]  # from here on nobody finds it
        await self._copies.forget(snapshot.id)
        await self._discard_unless_needed(snapshot)

    async def _discard_unless_needed(self, snapshot: Snapshot) -> None:
        """Remove the files of a snapshot that was removed, once no sandbox is being filled with them."""
        if not self._being_read[snapshot.id]:
            del self._being_read[snapshot.id]
            if snapshot.id not in self._known:
                await self._workspaces.discard(snapshot.owner, snapshot.id)

    async def _write(self) -> None:
        lines = "".join(f"{dumps(asdict(known))}\n" for known in self._known.values())
        try:
            await asyncio.to_thread(_replace, self._list, lines)
        except OSError as problem:
            raise disk.problem_of(problem) from problem

    def _read(self) -> Sequence[Snapshot]:
        try:
            lines = self._list.read_text().splitlines()
            return [Snapshot(**loads(line)) for line in lines]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as problem:
            log.error("the list of snapshots in %s cannot be read: %s", self._list, problem)
            return []


def _check(name: str) -> None:
    if len(name) > 200 or not name.isprintable():
        raise InvalidRun("The name of a snapshot has at most 200 printable characters.")


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}-{token_hex(8)}")
    try:
        with open(fresh, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
