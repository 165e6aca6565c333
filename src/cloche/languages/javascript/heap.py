"""What JavaScript and TypeScript have in common: Node, its modules, its manifest, its errors."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.language import Project

_ROOM = 128 << 20  # for what is not on the heap of old objects
_AMPLE = 512 << 20  # where garbage piles up to what is in use, it takes a good hundred megabytes in use to fill this
_LONG = 8 << 10
_MUCH = re.compile(r"\d[\d_]{3}|\de\d|<<|\*\*|stdin|readFile|createReadStream")


def heap(project: Project) -> tuple[str, ...]:
    """The option that has Node collect its garbage before it meets the sandbox's limit, which it does not know of.

    With it, Node cannot use its cache of its own code, and takes a sixth longer to start.  So it is left out where
    there is ample memory and a source names neither large numbers nor input.
    """
    source = project.text if len(project.files) <= 1 else None
    if project.memory >= _AMPLE and source is not None and len(source) <= _LONG and not _MUCH.search(source):
        return ()
    return (f"--max-old-space-size={max(project.memory // 2, project.memory - _ROOM) >> 20}",)
