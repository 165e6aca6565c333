"""Keeps the memory of snapshots, as checkpoints of the sandboxes that they were taken of.

A snapshot on the server's disk has files only.  While its sandbox lives, a checkpoint beside it has the variables of
Python, too, so that a restore within the sandbox brings everything back.
"""

from __future__ import annotations

import asyncio

from cloche.errors import ClocheError
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.lifecycle import Lifecycle
from cloche.service.live import LiveSandbox

MOST = 2  # of one sandbox; each is a copy of every Python kernel, and costs the memory that changes afterwards
_SHARE = (
    4  # a copy is made while at most this part of the sandbox's memory is in use, so that it can never fill the rest
)
_PATIENCE_S = 10.0  # for code that begins in the moment in which the copy is made


class SnapshotCopies:
    """The checkpoints that belong to snapshots."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._checkpoints: dict[str, tuple[str, str]] = {}  # by snapshot: the sandbox and the checkpoint

    async def keep(self, live: LiveSandbox, snapshot: str) -> tuple[str, str]:
        """Make a checkpoint for a snapshot; return its id, or why there is none.  The oldest one makes room."""
        box = live.box
        if not any(context.known and context.language == "python" for context in box.contexts.list()):
            return "", ""  # there is nothing to keep
        own = [known for known, (sandbox, _) in self._checkpoints.items() if sandbox == live.id]
        for known in own[: len(own) - MOST + 1]:
            await self.forget(known)
        reason = await _obstacle(box)
        if reason:
            return "", reason
        try:
            async with asyncio.timeout(_PATIENCE_S):
                taken = await box.checkpoint()
        except TimeoutError:
            return "", "code was running"
        except ClocheError as problem:
            return "", problem.message.rstrip(".")
        for known in [
            known for known, (sandbox, _) in self._checkpoints.items() if self._lifecycle.get(sandbox) is None
        ]:
            del self._checkpoints[known]
        self._checkpoints[snapshot] = live.id, taken.id
        live.happened("checkpoint", {"checkpoint": taken.id, "name": taken.name})
        return taken.id, ""

    async def forget(self, snapshot: str) -> None:
        """Remove the checkpoint of a snapshot, if there is one."""
        sandbox, checkpoint = self._checkpoints.pop(snapshot, ("", ""))
        live = self._lifecycle.get(sandbox) if sandbox else None
        if live is None or live.box.paused:
            return
        try:
            await live.box.checkpoints.remove(checkpoint)
        except ClocheError:
            pass  # its owner has removed it, or the sandbox has just ended


async def _obstacle(box: AsyncSandbox) -> str:
    """Return why the memory cannot be kept; empty if it can."""
    if any(context.cell is not None for context in box.contexts.list()):
        return "code was running"
    if box.checkpoints.is_full:
        return "the sandbox has as many checkpoints as it may have"
    used, limit = (await box.usage()).memory, box.limits.memory_bytes
    if used * _SHARE > limit:
        return f"it used {used >> 20} MB of its {limit >> 20} MB, and a copy is made below {limit // _SHARE >> 20} MB"
    return ""
