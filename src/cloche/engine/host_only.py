"""Finds the backend behind a sandbox object, for features that only sandboxes of this host have."""

from __future__ import annotations

from cloche.engine.sandbox import AsyncHostSandbox
from cloche.errors import InvalidRun
from cloche.sandbox.sandbox import AsyncSandbox


def on_this_host(box: AsyncSandbox) -> AsyncHostSandbox:
    """Return the engine's object for a sandbox of this host."""
    if not isinstance(box.backend, AsyncHostSandbox):
        raise InvalidRun("Only a sandbox of this host can do that.", hint='Make it with url="".')
    return box.backend
