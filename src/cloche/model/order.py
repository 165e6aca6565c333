"""What the engine orders from a wall, and what the wall tells of it."""

from __future__ import annotations

from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Ahead(Plain):
    """A command that a sandbox will begin with: a wall may have some ready in which it has been started already."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    until: str  # the system call before which it waits; "files": the first that names one of the sandbox's files


class Order(Plain):
    """What the engine wants a sandbox to be."""

    limits: Limits
    mounts: tuple[Mount, ...] = ()
    imports: frozenset[str] | None = None  # libraries that the program will use; None when nobody knows
    lifetime_s: float | None = None  # the wall ends the sandbox by itself after so long
    ahead: Ahead | None = None


class Spent(Plain):
    """What a sandbox has used, as seen from outside; None where this wall cannot tell."""

    memory: int | None = None
    memory_peak: int | None = None
    cpu_time: float | None = None
    processes: int | None = None
    oom_kills: int = 0  # processes that were killed for want of memory
    processes_refused: int = 0  # times that the limit of processes was met
    reason: str = ""  # why the wall ended it, if it did: "memory", "timeout" …
