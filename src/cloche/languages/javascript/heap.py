"""Chooses Node's heap size."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.language import Project

_ROOM = 128 << 20  # bytes for everything that is not on the heap of old objects
_AMPLE = 512 << 20  # garbage grows to the size of the data in use, so a program needs over 100 MB of data to fill this
_LONG = 8 << 10
_MUCH = re.compile(r"\d[\d_]{3}|\de\d|<<|\*\*|stdin|readFile|createReadStream")


def heap(project: Project) -> tuple[str, ...]:
    """Return the option that makes Node collect garbage before it reaches the sandbox's limit, which it cannot see.

    With the option, Node cannot use its code cache, and takes a sixth longer to start.  So it is left out if there is
    ample memory and the source mentions neither large numbers nor input.
    """
    source = project.text if len(project.files) <= 1 else None
    if project.memory >= _AMPLE and source is not None and len(source) <= _LONG and not _MUCH.search(source):
        return ()
    return (f"--max-old-space-size={max(project.memory // 2, project.memory - _ROOM) >> 20}",)
