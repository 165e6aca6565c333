"""Snapshots: what becomes of one that is removed while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cloche.policy.caller import ANYBODY
from cloche.service import snapshots
from cloche.service.snapshots import Snapshot, Snapshots


async def kept(folder: Path) -> tuple[Snapshots, Snapshot, Path]:
    """All snapshots of a server, of which there is one, and the folder of its files."""
    nothing: Any = None
    known = Snapshots(folder, nothing)
    workspace, _ = await known._workspaces.begin(ANYBODY.owner, "box")
    await known._workspaces.release(workspace)
    snapshot = Snapshot(workspace.id, ANYBODY.owner, "name", "box", workspace.about.created)
    known._known[snapshot.id] = snapshot
    return known, snapshot, workspace.folder


async def test_a_removed_snapshot_stays_for_the_sandboxes_that_are_being_filled_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, snapshot, folder = await kept(tmp_path / "snapshots")
    begun = [asyncio.Event(), asyncio.Event()]
    may_end = [asyncio.Event(), asyncio.Event()]
    had_files: list[bool] = []

    class Filling:
        def __init__(self, box: Any, *_: object) -> None:
            self._number: int = box

        async def fill(self, _: Sequence[str]) -> None:
            begun[self._number].set()
            await may_end[self._number].wait()
            had_files.append(folder.exists())

    monkeypatch.setattr(snapshots, "WorkspaceSaver", Filling)
    boxes: list[Any] = [0, 1]
    tasks = [asyncio.create_task(known.fill(ANYBODY, "name", box)) for box in boxes]
    for event in begun:
        await event.wait()
    await known.remove(ANYBODY, snapshot.id)
    assert known.find(ANYBODY, "name") is None
    for number, task in enumerate(tasks):
        may_end[number].set()
        await task
    assert had_files == [True, True]
    assert not folder.exists()


async def test_a_snapshot_may_be_removed_while_old_ones_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, first, folder = await kept(tmp_path / "snapshots")
    workspace, _ = await known._workspaces.begin(ANYBODY.owner, "box")
    await known._workspaces.release(workspace)
    second = Snapshot(workspace.id, ANYBODY.owner, "", "box", first.created)
    known._known[second.id] = second
    discard = known._workspaces.discard

    async def discard_both(owner: str, identity: str) -> None:
        await discard(owner, identity)
        if identity == first.id:
            await known.remove(ANYBODY, second.id)

    monkeypatch.setattr(known._workspaces, "discard", discard_both)
    await known.remove_old(-1.0)
    assert not known.list(ANYBODY)
    assert not folder.exists()
