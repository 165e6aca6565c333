"""What a tool has made of a project's manifests."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.model.packages import Lock


class Resolved(Plain):
    """The packages that a project needs, and its manifests and lock files as the tool has left them."""

    lock: Lock
    files: Mapping[str, str]
    output: str = ""  # of the tool's command
