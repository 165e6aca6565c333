# Generated from src/cloche/engine/host_only.py by scripts/blocking.py: edit that file instead.
"""The backend of a sandbox that a caller has, for features that only sandboxes of this host have."""

from __future__ import annotations

from cloche.blocking.engine.sandbox import HostSandbox
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.errors import InvalidRun


def on_this_host(box: Sandbox) -> HostSandbox:
    """The sandbox as the engine has it."""
    if not isinstance(box.backend, HostSandbox):
        raise InvalidRun("Only a sandbox of this host can do that.", hint='Make it with url="".')
    return box.backend
