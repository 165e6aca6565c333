"""Packages that were installed inside the sandbox: programs and kernels can import them, the agent cannot.

The folder is Python's folder for packages of the user.  Anybody's code can be there, so it is not on the `sys.path` of
the nursery and of the agent.  A fork of the agent puts it back when it becomes a program or a kernel.
"""

from __future__ import annotations

import os
import site
import sys


def leave_out() -> None:
    """Take the folder off `sys.path`; the nursery calls this."""
    own = site.getusersitepackages()
    if own in sys.path:
        sys.path.remove(own)
    sys.path_importer_cache.pop(own, None)


def put_back() -> None:
    """Put the folder on `sys.path`, as Python does at its start; without its .pth files, which are code."""
    put_first = getattr(sys.modules.get("sitecustomize"), "put_own_packages_first", None)  # cloche.environment
    if put_first is not None:  # else somebody else has built the environment
        put_first()


def want_a_fresh_python() -> bool:
    """Say whether the packages matter at Python's start, or replace a module that was imported before the fork."""
    try:
        entries = os.listdir(site.getusersitepackages())
    except OSError:
        return False  # nothing has been installed
    return any(entry.endswith(".pth") or entry.removesuffix(".py") in sys.modules for entry in entries)
