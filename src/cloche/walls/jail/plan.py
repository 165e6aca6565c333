"""From what somebody asks for to what a newborn builds around itself (enter.py), with what limits."""

from __future__ import annotations

import os

from cloche.walls.jail import landlock, root
from cloche.walls.jail.cgroup_files import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plan(configuration: dict[str, Any], groups: Any, request: dict[str, Any]) -> dict[str, Any]:
    """How to build a sandbox; what no control group limits is limited from within, by the kernel's other means."""
    writes_to_host = any(mount["writable"] for mount in request["mounts"])
    return {
        "privileged": configuration["privileged"],
        "uid_base": configuration["uid_base"],
        "host_mounts": configuration["host_mounts"],
        "host_proc": configuration["host_proc"],
        "without": configuration["without"],
        "environment": configuration["environment"],
        "landlock": landlock.abi() > 0,
        "filter": configuration["filters"][writes_to_host],
        "disk": request["disk"],
        "mounts": request["mounts"],
        "rlimit_memory": None if _by_group(groups, "memory") else request["memory"] + _own_memory(configuration),
        "rlimit_processes": None if _by_group(groups, "pids") else request["processes"] + 1,
    }


def shape(groups: Any, request: dict[str, Any]) -> str:
    """What is built into a sandbox and cannot be changed when it is claimed."""
    kept = [request["disk"], request["mounts"]]
    if not _by_group(groups, "memory"):
        kept.append(request["memory"])
    if not _by_group(groups, "pids"):
        kept.append(request["processes"])
    return repr(kept)


def limits(request: dict[str, Any]) -> dict[str, Any]:
    """What its control group limits."""
    chosen = {name: request[name] for name in ("memory", "disk", "cpu", "processes")}
    chosen["processes"] += 1  # the agent does not count
    return chosen


def map_users(host_pid: int, uid: int, proc: int) -> None:
    """Let a newborn be `user` inside and `uid` outside; `proc` is the host's /proc."""
    for kind in ("gid", "uid"):
        file = os.open(f"{host_pid}/{kind}_map", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, b"%d %d 1" % (root.UID, uid))
        finally:
            os.close(file)


def _by_group(groups: Any, controller: str) -> bool:
    return groups is not None and bool(groups.limits(controller))


def _own_memory(configuration: dict[str, Any]) -> int:
    """What a fork has from the start, shared with the nursery: a program's own share comes on top."""
    text = read(configuration["host_proc"], "self/status")
    return int(text.partition(b"VmData:")[2].split()[0]) * 1024
