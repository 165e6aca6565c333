"""Decides which isolation a caller may choose."""

from __future__ import annotations

from cloche import settings
from cloche.errors import Refused
from cloche.walls import registry


def check_isolation(isolation: str) -> None:
    """Refuse a wall that may cost the operator money elsewhere, unless the operator offers it."""
    entry = registry.find(isolation)
    if not registry.is_offered(entry, settings.load()):
        raise Refused(
            f"This server does not offer isolation {entry.name!r}.",
            hint=f"Leave `isolation` out, or ask the operator to set {registry.variable(entry)} in its environment.",
        )
