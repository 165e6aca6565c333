"""Asks the caller before something that cannot be taken back."""

from __future__ import annotations

import sys

from cloche.errors import InvalidRun


def agreed(question: str) -> bool:
    """Ask on the terminal; raise an error if there is none."""
    if not sys.stdin.isatty():
        raise InvalidRun(
            "Nothing was changed: standard input is not a terminal, so the command cannot ask.",
            hint="Add --yes to go on without being asked.",
        )
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
