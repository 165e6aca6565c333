"""Where layers of packages appear inside a sandbox."""

from __future__ import annotations

LAYERS = "/opt/layers"
SLOTS = 64  # layers that one sandbox can have


def slot(number: int) -> str:
    """The mount point of a sandbox's layer with this number."""
    return f"{LAYERS}/{number}"
