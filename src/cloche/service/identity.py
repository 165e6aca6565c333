"""Ids that cannot be guessed."""

from __future__ import annotations

from secrets import token_hex
from time import time


def new_id(kind: str, when: float | None = None) -> str:
    """Make an id that sorts by its time and cannot be guessed: it has 144 random bits."""
    milliseconds = int((time() if when is None else when) * 1000)
    return f"{kind}_{milliseconds:011x}{token_hex(18)}"
