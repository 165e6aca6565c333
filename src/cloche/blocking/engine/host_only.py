# Generated from src/cloche/engine/host_only.py by scripts/blocking.py: edit that file instead.
"""Finds the backend behind a sandbox object, for features that only sandboxes of this host have."""

from __future__ import annotations

from cloche.blocking.engine.sandbox import HostSandbox
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.errors import InvalidRun


def on_this_host(box: Sandbox) -> HostSandbox:
    """Return the engine's object for a sandbox of this host."""
    if not isinstance(box.backend, HostSandbox):
        raise InvalidRun("Only a sandbox of this host can do that.", hint='Make it with url="".')
    return box.backend
