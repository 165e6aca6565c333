# Generated from src/cloche/engine/inspection.py by scripts/blocking.py: edit that file instead.
"""Inspects a session of this host: its variables, and the files that have changed since a checkpoint."""

from __future__ import annotations

from typing import Any

from cloche.blocking.engine.host_only import on_this_host
from cloche.blocking.sandbox.checkpoints import Checkpoint
from cloche.blocking.sandbox.contexts import Context
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.model.history import FileChanges


def variables(box: Sandbox, context: Context) -> dict[str, dict[str, Any]]:
    """Return the variables of a Python context by name: type, size, beginning ("shown") and digest of each."""
    return on_this_host(box).sessions.variables(context.id)


def changes(box: Sandbox, checkpoint: Checkpoint) -> FileChanges:
    """Return the files that have changed since a checkpoint."""
    return on_this_host(box).checkpoints.changes(checkpoint.id)
