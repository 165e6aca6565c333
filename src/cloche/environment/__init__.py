"""The Python that programs in a sandbox see: `python -m cloche.environment` builds it, the walls mount it read-only.

Inside, the base interpreter's prefix is `/opt/python` and this environment is `/opt/env`. Asking where it lives is on
the path of every cold start, so this file imports next to nothing; the building is in `build`.
"""

import os
import sys

from cloche.environment.fingerprint import FINGERPRINT

__all__ = ["MANIFEST", "is_built", "location"]

MANIFEST = "manifest.json"


def location(override: str | None = None) -> str:
    """Where this interpreter's environment lives, built or not; a changed lock or builder moves it."""
    if override:
        return os.path.abspath(override)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return os.path.join(sys.prefix, "lib", "cloche", f"python-{version}-{FINGERPRINT}")


def is_built(path: str | os.PathLike[str]) -> bool:
    """Whether a complete environment is there; a build in progress, or one that was interrupted, is not."""
    return os.path.isfile(os.path.join(path, MANIFEST))
