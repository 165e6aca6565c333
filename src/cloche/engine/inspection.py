"""Inspects a session of this host: its variables, and the files that have changed since a checkpoint."""

from __future__ import annotations

from typing import Any

from cloche.engine.host_only import on_this_host
from cloche.model.history import FileChanges
from cloche.sandbox.checkpoints import AsyncCheckpoint
from cloche.sandbox.contexts import AsyncContext
from cloche.sandbox.sandbox import AsyncSandbox


async def variables(box: AsyncSandbox, context: AsyncContext) -> dict[str, dict[str, Any]]:
    """Return the variables of a Python context by name: type, size, beginning ("shown") and digest of each."""
    return await on_this_host(box).sessions.variables(context.id)


async def changes(box: AsyncSandbox, checkpoint: AsyncCheckpoint) -> FileChanges:
    """Return the files that have changed since a checkpoint."""
    return await on_this_host(box).checkpoints.changes(checkpoint.id)
