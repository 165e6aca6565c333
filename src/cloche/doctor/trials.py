"""Tries each operation that a launcher needs, in its own process, to find out what the kernel allows.

The survey runs this as a script in the same way as a launcher (walls/jail/launch.py: the same interpreter, no
environment), so that anything that depends on the program or its control group has the same result.  It prints one JSON
object; the survey turns that into rows.
"""

from __future__ import annotations

import os
import sys
from json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def main() -> None:
    """Run all trials, and print their results."""
    results = {name: _in_child(trial) for name, trial in TRIALS.items()}
    print(dumps(results))


def namespaces() -> dict[str, Any]:
    """Enter a launcher's namespaces, and return whether it has the rights of root."""
    return {"privileged": _launcher_namespaces()}


def user_namespace() -> dict[str, Any]:
    """Make a user namespace and use its capabilities: AppArmor allows the namespace, but not its capabilities."""
    from cloche.walls.jail import linux

    maps_itself = not _in_child(namespaces).get(
        "privileged"
    )  # a launcher with root's rights maps its children from outside
    step = "unshare"
    try:
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(linux.NEWUSER)
        step = "map"
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            if maps_itself:
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        step = "use"
        linux.unshare(linux.NEWNS | linux.NEWNET | linux.NEWIPC | linux.NEWUTS)
        linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    except OSError as problem:
        return {"step": step, "errno": problem.errno, "failed": str(problem)}
    return {}


def fresh_proc() -> dict[str, Any]:
    """Mount a /proc for a new pid namespace, which the kernel refuses where the visible one is partly covered."""
    from cloche.walls.jail import linux

    try:
        _launcher_namespaces()
    except OSError as problem:
        return {"step": "namespaces", "errno": problem.errno, "failed": str(problem)}

    def mount() -> dict[str, Any]:
        linux.unshare(linux.NEWNS)
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        return {"pid": os.readlink("/proc/self")}

    return _in_child(mount)  # the first child is the first process in the new pid namespace


def seccomp() -> dict[str, Any]:
    """Load the filter."""
    from cloche.walls.jail import filter as system_calls
    from cloche.walls.jail import linux

    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    system_calls.load(system_calls.program())
    return {}


def landlock() -> dict[str, Any]:
    """Read the version of Landlock."""
    from cloche.walls.jail import landlock

    return {"abi": landlock.abi()}


def control_groups() -> dict[str, Any]:
    """Find out which limits control groups can enforce here; this process may be moved to another group for that."""
    from cloche.walls.jail import cgroups

    groups = cgroups.detect()
    return {"controllers": groups.controllers, "missing": groups.missing}


TRIALS: dict[str, Callable[[], dict[str, Any]]] = {
    "namespaces": namespaces,
    "user_namespace": user_namespace,
    "fresh_proc": fresh_proc,
    "seccomp": seccomp,
    "landlock": landlock,
    "control_groups": control_groups,
}


def _launcher_namespaces() -> bool:
    from cloche.walls.jail import launch, linux

    return launch._enter_namespaces(linux)


def _in_child(trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    from json import loads

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = trial()
        except BaseException as problem:
            result = {"errno": getattr(problem, "errno", None), "failed": f"{type(problem).__name__}: {problem}"}
        os.write(writing, dumps(result).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if not text:
        return {"errno": None, "failed": f"the process of the trial ended with status {status}"}
    outcome: dict[str, Any] = loads(text)
    return outcome


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__ + "/../..")))
    main()
