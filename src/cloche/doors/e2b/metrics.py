"""Resource usage for E2B's clients: measured on each request, and kept for later requests."""

from __future__ import annotations

from math import ceil
from typing import Any

from cloche.clock import steady
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Reply
from cloche.doors.e2b.sandboxes import Directory, E2bSandbox
from cloche.doors.e2b.times import is_within, moment
from cloche.doors.routing.access import Access
from cloche.policy.caller import Caller

_APART_S = 1.0  # at least, between two measurements
_MOST = 1000
_FOREVER = 1e12


class Measures:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def operations(self) -> ControlOperations:
        return {
            ("GET", "sandboxes", "", "metrics"): ControlOperation(self._of_one, Access("read")),
            ("GET", "sandboxes", "metrics"): ControlOperation(self._of_many, Access("read")),
            ("GET", "sandboxes", "", "logs"): ControlOperation(self._logs, Access("read")),
        }

    async def _of_one(self, request: ControlRequest) -> Reply:
        sandbox = await self._directory.find(request.caller, request.name)
        start, end = (request.number(name, default, 0, _FOREVER) for name, default in (("start", 0), ("end", _FOREVER)))
        await _measure(sandbox, request.caller)
        return Reply(200, [sample for sample, when, _ in sandbox.measured if is_within(when, start, end)])

    async def _of_many(self, request: ControlRequest) -> Reply:
        found = {}
        for name in filter(None, request.query.get("sandbox_ids", "").split(",")):
            sandbox = await self._directory.find(request.caller, name)
            await _measure(sandbox, request.caller)
            if sandbox.measured:
                found[sandbox.id] = sandbox.measured[-1][0]
        return Reply(200, {"sandboxes": found})

    async def _logs(self, request: ControlRequest) -> Reply:
        await self._directory.find(request.caller, request.name)
        # E2B lists the boot log of a virtual machine here; our sandboxes have none.
        return Reply(200, {"logs": [], "logEntries": []})


async def _measure(sandbox: E2bSandbox, caller: Caller) -> None:
    now, record = steady(), sandbox.view.record
    _, before, cpu_before = sandbox.measured[-1] if sandbox.measured else ({}, record.created, 0.0)
    if sandbox.view.paused or (sandbox.measured and now - before < _APART_S):
        return
    usage, limits = await sandbox.service.sandboxes.usage(caller, sandbox.view.id), sandbox.view.limits
    share = (usage.cpu_time - cpu_before) / max(now - before, 0.01)
    sample: dict[str, Any] = {
        "timestamp": moment(now),
        "timestampUnix": int(now),
        "cpuCount": ceil(limits.cpu),
        "cpuUsedPct": round(100 * share / ceil(limits.cpu), 2),
        "memUsed": usage.memory,
        "memTotal": limits.memory_bytes,
        "memCache": 0,
        "diskUsed": usage.disk,
        "diskTotal": limits.disk_bytes,
    }
    sandbox.measured.append((sample, now, usage.cpu_time))
    del sandbox.measured[:-_MOST]
