"""Reads the scripts that belong to languages, and that are written into sandboxes."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_texts: dict[str, str] = {}


def read(path: str) -> str:
    """Return the text of a file, given its path in the package `cloche`."""
    if path not in _texts:
        with open(os.path.join(_PACKAGE, path), encoding="utf-8") as file:
            _texts[path] = file.read()
    return _texts[path]
