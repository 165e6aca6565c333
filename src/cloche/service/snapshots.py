"""Snapshots: the files of a sandbox as they were at a moment, for other sandboxes to begin with."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from secrets import token_hex
from time import time

from cloche.errors import Gone, InvalidRun, Refused, SandboxFailed
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service import manifest
from cloche.service.held import Held
from cloche.service.keeping import Keeping
from cloche.service.manifest import Damaged
from cloche.service.workspaces import Workspaces

log = logging.getLogger("cloche.snapshots")

MOST = 1000  # of one owner


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of one without looking at its files."""

    id: str
    owner: str
    name: str
    sandbox: str  # that it was taken of
    created: float


class Snapshots:
    """All snapshots of this server, beside a list of them."""

    def __init__(self, folder: Path) -> None:
        self._list = folder / "list"
        self._kept = Workspaces(folder / "files")
        self._known: dict[str, Snapshot] = {}

    async def load(self) -> None:
        """Find those that there are."""
        await self._kept.load()
        for snapshot in await asyncio.to_thread(self._read):
            try:
                self._kept.find(snapshot.owner, snapshot.id)
            except Gone:
                continue
            self._known[snapshot.id] = snapshot

    async def take(self, held: Held, name: str = "") -> Snapshot:
        """Keep the files of a sandbox as they are now; one of the same name is replaced."""
        _check(name)
        if sum(known.owner == held.owner for known in self._known.values()) >= MOST:
            raise Refused(f"There are {MOST} snapshots already.", hint="Remove some.")
        workspace, tree = await self._kept.begin(held.owner, held.id)
        try:
            async with held.used() as box:
                await Keeping(box, workspace, tree).save()
        except BaseException:
            await self._kept.release(workspace, is_new=True)
            raise
        await self._kept.release(workspace)
        before = [known for known in self._known.values() if name and (known.owner, known.name) == (held.owner, name)]
        snapshot = Snapshot(workspace.id, held.owner, name, held.id, time())
        self._known[snapshot.id] = snapshot
        for known in before:
            await self._remove(known)
        await self._write()
        held.happened("snapshot", {"snapshot": snapshot.id, "name": name})
        return snapshot

    async def fill(self, snapshot: Snapshot, box: AsyncSandbox) -> None:
        """Have a fresh sandbox begin with its files."""
        workspace = self._kept.find(snapshot.owner, snapshot.id)
        try:
            _, tree = await asyncio.to_thread(manifest.read, workspace.folder)
        except Damaged as problem:
            log.error("the snapshot in %s cannot be read: %s", workspace.folder, problem)
            raise SandboxFailed("The snapshot is damaged.", hint="The server's log says more.") from problem
        await Keeping(box, workspace, tree).fill(())

    def find(self, owner: str, name: str) -> Snapshot | None:
        """A snapshot of this owner's, by its id or its name."""
        for known in self._known.values():
            if known.owner == owner and name in (known.id, known.name):
                return known
        return None

    def of(self, owner: str) -> list[Snapshot]:
        """All of an owner's, newest first."""
        found = [known for known in self._known.values() if known.owner == owner]
        return sorted(found, key=lambda known: known.id, reverse=True)

    async def remove(self, snapshot: Snapshot) -> None:
        """Remove one; sandboxes that began with it stay."""
        await self._remove(snapshot)
        await self._write()

    async def remove_old(self, age_s: float) -> None:
        """Remove those that were taken so long ago."""
        before = time() - age_s
        old = [known for known in self._known.values() if known.created < before]
        for snapshot in old:
            await self._remove(snapshot)
        if old:
            await self._write()

    async def _remove(self, snapshot: Snapshot) -> None:
        del self._known[snapshot.id]
        await self._kept.remove(snapshot.owner, snapshot.id)

    async def _write(self) -> None:
        lines = "".join(f"{dumps(asdict(known))}\n" for known in self._known.values())
        try:
            await asyncio.to_thread(_replace, self._list, lines)
        except OSError as problem:
            raise manifest.problem_of(problem) from problem

    def _read(self) -> list[Snapshot]:
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
