"""Decides which isolation a caller may choose."""

from __future__ import annotations

from cloche import settings
from cloche.errors import Refused


def check_isolation(isolation: str) -> None:
    """Refuse an isolation that costs the operator money elsewhere, unless the operator has offered it."""
    if isolation == "e2b" and not settings.load().e2b_api_key:
        raise Refused(
            "This server has no E2B-compatible service to run code on.",
            hint="Leave `isolation` out; the operator can name a service with CLOCHE_E2B_API_KEY in its environment.",
        )
