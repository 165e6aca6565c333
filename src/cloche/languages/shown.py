"""Where programs leave what is to be displayed: a folder for each run, and the scripts of ours that fill it."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_read: dict[str, str] = {}


def new_folder() -> str:
    """A folder in the sandbox that no other run has."""
    return f"/tmp/.shown/{os.urandom(6).hex()}"


def script(name: str) -> str:
    """The text of one of our scripts, by its path in the package."""
    if name not in _read:
        with open(os.path.join(_PACKAGE, name), encoding="utf-8") as file:
            _read[name] = file.read()
    return _read[name]
