"""Snapshots and forks: new sandboxes start with the files of another, but not its memory (docs/e2b.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from cloche.doors.e2b.answers import Refusal, refusal
from cloche.doors.e2b.losses import losses_of
from cloche.doors.e2b.requests import (
    ControlOperation,
    ControlOperations,
    ControlRequest,
    Place,
    Reply,
    paged,
)
from cloche.doors.e2b.sandboxes import Directory, E2bSandbox, from_e2b
from cloche.doors.e2b.templates import is_template
from cloche.doors.e2b.times import instant
from cloche.doors.routing.access import Access
from cloche.errors import ClocheError, Gone
from cloche.policy.caller import Caller
from cloche.service.service import Service
from cloche.service.snapshots import Snapshot

_TAG = ":default"
_OURS, _THEIRS = "wsp_", "snp"
_MOST_FORKS = 20
Make = Callable[[ControlRequest, E2bSandbox, Snapshot, float], Awaitable[dict[str, Any]]]
ReadTimeout = Callable[[dict[str, Any]], float]
RemoveTemplate = Callable[[Caller, str], Awaitable[bool]]


class SnapshotRoutes:
    def __init__(
        self,
        service: Service,
        directory: Directory,
        make: Make,
        read_timeout: ReadTimeout,
        remove_template: RemoveTemplate,
    ) -> None:
        self._snapshots, self._directory = service.snapshots, directory
        self._make, self._read_timeout, self._remove_template = make, read_timeout, remove_template

    def operations(self) -> ControlOperations:
        return {
            ("POST", "sandboxes", "", "snapshots"): ControlOperation(self._take, Access("run", "json")),
            ("POST", "sandboxes", "", "fork"): ControlOperation(self._fork, Access("run", "json")),
            ("GET", "snapshots"): ControlOperation(self._list, Access("read")),
            ("DELETE", "templates", ""): ControlOperation(self._remove, Access("run", "none")),
        }

    def find(self, caller: Caller, name: str) -> Snapshot | None:
        """Find a snapshot by the id or name that a client uses, with or without the tag."""
        bare = name.removesuffix(_TAG)
        return self._snapshots.find(caller, bare.replace(_THEIRS, _OURS, 1)) or self._snapshots.find(caller, bare)

    async def _take(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._directory.find(request.caller, request.name), await request.body()
        if sandbox.view.paused:
            raise Refusal(409, "The sandbox is paused: connect to it first.")
        losses = await losses_of(sandbox, request.caller)
        snapshot = await self._snapshots.take(request.caller, sandbox.view.id, str(body.get("name") or ""))
        note = f"{losses['note']} {snapshot.note}".strip()
        return Reply(201, {**_json(snapshot), **losses, "note": note, "checkpoint": snapshot.checkpoint or None})

    async def _list(self, request: ControlRequest) -> Reply:
        sandbox, name = from_e2b(request.query.get("sandboxID", "")), request.query.get("name", "").removesuffix(_TAG)
        found = [
            known
            for known in self._snapshots.list(request.caller)
            if sandbox in ("", known.sandbox) and name in ("", known.name, known.id)
        ]
        return paged(request, found, lambda known: Place(instant(known.created), known.id), _json)

    async def _remove(self, request: ControlRequest) -> Reply:
        found = self.find(request.caller, request.name)
        if found is None and is_template(request.name):
            raise Refusal(400, f"Template '{request.name}' belongs to the server and cannot be deleted.")
        if found is None and await self._remove_template(request.caller, request.name):
            return Reply()
        if found is None:
            raise Refusal(404, f"Template or snapshot '{request.name}' not found")
        await self._snapshots.remove(request.caller, found.id)
        return Reply()

    async def _fork(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._directory.find(request.caller, request.name), await request.body()
        count, ttl = _count(body), self._read_timeout(body)  # before anything is made
        if sandbox.view.paused:
            raise Refusal(409, "The sandbox is paused: connect to it first.")
        losses = await losses_of(sandbox, request.caller)
        snapshot = await self._snapshots.take(request.caller, sandbox.view.id, keeps_memory=False)
        try:
            made = await asyncio.gather(*(self._one(request, sandbox, snapshot, ttl, losses) for _ in range(count)))
        finally:
            with suppress(Gone):  # a client that lists snapshots may have removed it
                await self._snapshots.remove(request.caller, snapshot.id)
        return Reply(201, made)

    async def _one(
        self, request: ControlRequest, sandbox: E2bSandbox, snapshot: Snapshot, ttl: float, losses: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            return {"sandbox": {**await self._make(request, sandbox, snapshot, ttl), **losses}}
        except (ClocheError, Refusal) as problem:
            found = problem if isinstance(problem, Refusal) else refusal(problem)
            return {"error": {"code": found.status, "message": found.message}}


def _count(body: dict[str, Any]) -> int:
    count = body.get("count")
    if count is None:
        return 1
    if type(count) is not int or not 1 <= count <= _MOST_FORKS:  # not isinstance, for which True is 1
        raise Refusal(400, f"count may be 1 to {_MOST_FORKS}.")
    return count


def _json(snapshot: Snapshot) -> dict[str, Any]:
    name = snapshot.name or snapshot.id.replace(_OURS, _THEIRS, 1)
    return {"snapshotID": f"{name}{_TAG}", "names": [snapshot.name] if snapshot.name else []}
