"""The Python environment of sandboxes: `python -m cloche.environment` builds it, and the walls mount it read-only.

Inside, the base interpreter's prefix is `/opt/python` and this environment is `/opt/env`. Every cold start asks for its
location, so this file imports next to nothing; the code that builds it is in `build`.

Tests: tests/environment
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MANIFEST", "is_built", "location", "manifest"]

MANIFEST = "manifest.json"


def location(override: str | None = None) -> str:
    """Return the path of this interpreter's environment, built or not; it changes with the lock and the builder."""
    if override:
        return os.path.abspath(override)
    from cloche.environment.fingerprint import FINGERPRINT

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return os.path.join(sys.prefix, "lib", "cloche", f"python-{version}-{FINGERPRINT}")


def is_built(path: str | os.PathLike[str]) -> bool:
    """Is there a complete environment?  A build in progress, or one that was interrupted, is not complete."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the versions of Python and of the packages in an environment; empty if it is not built."""
    from json import load

    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            found: dict[str, Any] = load(file)
            return found
    except FileNotFoundError:
        return {}
