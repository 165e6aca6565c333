"""The list of a sandbox's layers, a file in its workspace: a saved workspace that is opened again needs them.

Programs can change the file.  The engine mounts only layers that the sandbox's policy allows, whatever the list says.
"""

from __future__ import annotations

import os

from cloche.agent.paths import open_regular
from cloche.wire.light_json import dumps, loads

_PLACE = ".local/share/cloche/layers.json"
_MAX_SIZE = 64 << 10


def note(home: str, name: str, number: int) -> None:
    """Add a layer, by its name, with the number of its slot."""
    path = f"{home}/{_PLACE}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    known = {each: slot for each, slot in read(home).items() if slot != number}
    draft = f"{path}.new"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, dumps({**known, name: number}).encode())
    finally:
        os.close(file)
    os.replace(draft, path)


def read(home: str) -> dict[str, int]:
    """Return the numbers of the slots, by the names of the layers."""
    try:
        file = open_regular(f"{home}/{_PLACE}", os.O_RDONLY)
    except OSError:
        return {}
    try:
        found = loads(os.read(file, _MAX_SIZE).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    finally:
        os.close(file)
    if not isinstance(found, dict):
        return {}
    return {str(name): number for name, number in found.items() if type(number) is int}
