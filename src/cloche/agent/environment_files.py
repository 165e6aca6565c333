"""Puts the files of an environment into a new sandbox, before anybody claims it.

The archive was made by programs, so it is unpacked here, inside the wall.
"""

from __future__ import annotations

import tarfile  # at once: later, inside the wall, it would take longer


def unpack(archive: str) -> None:
    """Unpack the archive over the workspace and the root."""
    with tarfile.open(archive, "r:") as source:
        source.extractall("/", filter="fully_trusted")
