"""What the kernel lets a launcher do here, found out by doing it, each in a process that ends with it.

Run as a script in the way that a launcher is (walls/jail/launch.py: the same interpreter, no environment), so that what
depends on the program or on its control group turns out the same.  Prints one JSON object; the survey puts it in words.
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
    """Try everything, and print what came of it."""
    told = {name: _in_child(trial) for name, trial in TRIALS.items()}
    print(dumps(told))


def namespaces() -> dict[str, Any]:
    """Enter the namespaces of a launcher: is it as mighty as root should be?"""
    return {"privileged": _launcher_namespaces()}


def user_namespace() -> dict[str, Any]:
    """Make a user namespace and use what it gives: AppArmor lets it be made and then takes its capabilities away."""
    from cloche.walls.jail import linux

    maps_itself = not _in_child(namespaces).get("privileged")  # a mighty launcher maps others, and from outside
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
    """Mount a /proc for a new pid namespace, which the kernel refuses where the one in sight is covered in part."""
    from cloche.walls.jail import linux

    try:
        _launcher_namespaces()
    except OSError as problem:
        return {"step": "namespaces", "errno": problem.errno, "failed": str(problem)}

    def mount() -> dict[str, Any]:
        linux.unshare(linux.NEWNS)
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        return {"pid": os.readlink("/proc/self")}

    return _in_child(mount)  # a child: it is the first one that is in the new pid namespace


def seccomp() -> dict[str, Any]:
    """Load the filter."""
    from cloche.walls.jail import filter as system_calls
    from cloche.walls.jail import linux

    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    system_calls.load(system_calls.program())
    return {}


def landlock() -> dict[str, Any]:
    """Which version is there."""
    from cloche.walls.jail import landlock

    return {"abi": landlock.abi()}


def control_groups() -> dict[str, Any]:
    """What can be limited by control groups; this process may be moved for it, and ends."""
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
            told = trial()
        except BaseException as problem:
            told = {"errno": getattr(problem, "errno", None), "failed": f"{type(problem).__name__}: {problem}"}
        os.write(writing, dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    told = loads(text) if text else {"errno": None, "failed": f"the process that tried it ended with status {status}"}
    return told


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__ + "/../..")))
    main()
