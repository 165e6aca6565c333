"""The order that the engine gives to a wall, and the wall's account of the sandbox that it made for it."""

from __future__ import annotations

from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.model.environments import EnvironmentMount


class FirstCommand(Plain):
    """The command that a sandbox will begin with.  A wall may keep sandboxes in which it has been started already."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    until: str  # the system call before which it waits; "files": the first call that names one of the sandbox's files


class Order(Plain):
    """The sandbox that the engine wants."""

    limits: Limits
    mounts: tuple[Mount, ...] = ()
    imports: frozenset[str] | None = None  # libraries that the program will use; None when nobody knows
    lifetime_s: float | None = None  # the wall ends the sandbox by itself after this time
    first_command: FirstCommand | None = None
    environment: EnvironmentMount | None = None


class Listener(Plain):
    """A socket in a sandbox that accepts all connections to a port; its owner closes the descriptor."""

    kind: str  # "tcp" or "udp"
    port: int
    descriptor: int


class Spent(Plain):
    """The resources that a sandbox has used, measured from outside; None where the wall does not know."""

    memory: int | None = None
    memory_peak: int | None = None  # may include files that are gone by now
    memory_least: int | None = None  # the peak is at least this
    cpu_time: float | None = None
    cpu_estimate: float | None = None  # in hundredths of a second, where the wall cannot count `cpu_time`
    processes: int | None = None
    processes_peak: int | None = None  # with the agent, and with threads
    oom_kills: int = 0  # processes that were killed because memory ran out
    processes_refused: int = 0  # times that the limit of processes was met
    reason: str = ""  # why the wall ended the sandbox, if it did: "memory", "timeout" …
