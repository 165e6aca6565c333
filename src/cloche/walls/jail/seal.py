"""The last steps into the jail: this process, and all that it starts, give up rights that they cannot get back."""

from __future__ import annotations

import os
import resource

from cloche.agent.python import set_dumpable
from cloche.walls.jail import landlock, linux, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.plan import Plan

_WRITABLE = "/"  # beneath it, read-only mounts protect the system's folders: a rule cannot except a folder
_DEVICES = ["/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/proc"]


def seal(plan: Plan, store: int) -> int | None:
    """Give up all rights; raises rather than leave out a protection.  Returns the filter's listener.

    `store` is a folder without a path, to which the agent still has to write.
    """
    without = plan["without"]
    _limit(plan)
    set_dumpable("dumpable" in without)  # programs have the agent's uid, and must not read its memory
    linux.prctl(linux.PR_SET_PDEATHSIG, 9)  # after the change of uid, which clears it
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if "capabilities" not in without:
        linux.drop_capabilities()
    if plan["landlock"] and "landlock" not in without:
        landlock.restrict([], [_WRITABLE, store], [path for path in _DEVICES if os.path.lexists(path)])
    if "filter" in without:
        return None
    return seccomp.load(plan["filter"])  # last: the steps above need the calls that it refuses


def _limit(plan: Plan) -> None:
    """Set resource limits; those of memory and processes only where no control group enforces them."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: plan["descriptors"],
        resource.RLIMIT_MEMLOCK: 8 << 20,
        resource.RLIMIT_MSGQUEUE: 1 << 20,
        resource.RLIMIT_SIGPENDING: 4096,
    }
    if plan["rlimit_processes"] is not None:
        limits[resource.RLIMIT_NPROC] = plan["rlimit_processes"]
    if plan["rlimit_memory"] is not None:
        limits[resource.RLIMIT_DATA] = plan["rlimit_memory"]
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
