"""The Python that programs in a sandbox see: `python -m cloche.environment` builds it, the walls mount it read-only.

Inside, the base interpreter's prefix is `/opt/python` and this environment is `/opt/env`. Asking where it lives is on
the path of every cold start, so this file imports next to nothing; the building is in `build`.
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
    """Where this interpreter's environment lives, built or not; a changed lock or builder moves it."""
    if override:
        return os.path.abspath(override)
    from cloche.environment.fingerprint import FINGERPRINT

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return os.path.join(sys.prefix, "lib", "cloche", f"python-{version}-{FINGERPRINT}")


def is_built(path: str | os.PathLike[str]) -> bool:
    """Whether a complete environment is there; a build in progress, or one that was interrupted, is not."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a built environment: the versions of Python and of its packages; nothing when it is not built."""
    from json import load

    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            found: dict[str, Any] = load(file)
            return found
    except FileNotFoundError:
        return {}
