"""Packages that were installed in the sandbox, by `!pip install` in a cell or elsewhere: the kernel can import them."""

from __future__ import annotations

import os
import site
import sys

_known: set[str] = set()  # .pth files that have been read since the kernel started


def notice() -> None:
    """Look again for modules that were missing."""
    for finder in sys.meta_path:
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    read_new_paths()


def read_new_paths() -> None:
    """Read the .pth files that are new, as `pip install --editable` makes them."""
    folder = site.getusersitepackages()
    try:
        found = {name for name in os.listdir(folder) if name.endswith(".pth")}
    except OSError:
        return  # nothing has been installed
    paths = {os.path.normcase(path) for path in sys.path}
    for name in sorted(found - _known):
        site.addpackage(folder, name, paths)
    _known.update(found)
