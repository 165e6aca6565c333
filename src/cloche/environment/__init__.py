"""The Python environment of sandboxes: `cloche setup` builds it, and the walls mount it read-only.

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

__all__ = ["MANIFEST", "home", "is_built", "is_slim", "location", "manifest"]

MANIFEST = "manifest.json"
IS_A_PACKAGE = "-packages/cloche/" in __file__  # installed by pip or the like, not the source of a clone


def location(override: str | None = None) -> str:
    """Return the path of this interpreter's environment, built or not; it changes with the lock and the builder."""
    if override:
        return os.path.abspath(override)
    beside, name = beside_interpreter()
    if not IS_A_PACKAGE or is_built(f"{beside}/{name}"):
        return f"{beside}/{name}"
    # All installs of a user share this folder, so the name tells their interpreters apart: the environment contains a
    # part of its interpreter.
    return f"{_of_user()}/{name}{sys.base_prefix.replace('/', '-')[-200:]}"


def home() -> str:
    """Return the folder for files that are built once for this install: beside the interpreter, or the user's own."""
    beside, name = beside_interpreter()
    return beside if not IS_A_PACKAGE or is_built(f"{beside}/{name}") else _of_user()


def beside_interpreter() -> tuple[str, str]:
    """Return the folder that belongs to the interpreter's prefix, and the name of an environment in it.

    A clone's virtual environment keeps its files there.  A package does so only after `cloche setup --shared`: the
    folder may be read-only, or in the cache of a tool that removes it at any time (`uvx`).
    """
    from cloche.environment.fingerprint import FINGERPRINT

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{sys.prefix}/lib/cloche", f"python-{version}-{FINGERPRINT}"


def _of_user() -> str:
    from cloche import settings

    return f"{settings.data_home()}/cloche/environments"


def is_built(path: str | os.PathLike[str]) -> bool:
    """Is there a complete environment?  A build in progress, or one that was interrupted, is not complete."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def is_slim(path: str | os.PathLike[str]) -> bool:
    """Is there an environment with NumPy alone (`cloche setup --slim`)?"""
    return manifest(path).get("variant") == "slim"


def manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the versions of Python and of the packages in an environment; empty if it is not built."""
    from json import load

    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            found: dict[str, Any] = load(file)
            return found
    except FileNotFoundError:
        return {}
