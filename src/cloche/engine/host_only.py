"""The backend of a sandbox that a caller has, for features that only sandboxes of this host have."""

from __future__ import annotations

from cloche.engine.sandbox import AsyncHostSandbox
from cloche.errors import InvalidRun
from cloche.sandbox.sandbox import AsyncSandbox


def on_this_host(box: AsyncSandbox) -> AsyncHostSandbox:
    """The sandbox as the engine has it."""
    if not isinstance(box.backend, AsyncHostSandbox):
        raise InvalidRun("Only a sandbox of this host can do that.", hint='Make it with url="".')
    return box.backend
