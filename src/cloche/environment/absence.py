"""Says why the environment, or a part of it, is not there, and what to do about it."""

from __future__ import annotations

import os

from cloche.environment.progress import progress_of

__all__ = ["explain", "locked_packages"]


def explain(place: str) -> tuple[str, str]:
    """Return a message and a hint about an environment that is not built; servers send both to strangers."""
    step = progress_of(place)
    if step is not None:
        return f"The sandboxes' Python environment is being built ({step}).", "Try again in a minute."
    return (
        "The sandboxes' Python environment is missing.",
        "Run `cloche setup`, which builds it, or `cloche setup --slim` for a small one.",
    )


def locked_packages() -> list[str]:
    """Return the names of the packages in the full environment."""
    from re import findall

    with open(os.path.join(os.path.dirname(__file__), "packages.lock"), encoding="utf-8") as lock:
        return findall(r"(?m)^([a-z0-9-]+)==", lock.read())
