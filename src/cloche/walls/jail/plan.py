"""Turns an order into the plan that a new sandbox follows (enter.py), and into the limits of its control group."""

from __future__ import annotations

import os

from cloche.walls.jail import landlock, root, shown_limits
from cloche.walls.jail.cgroup_files import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from cloche.walls.jail.claim import OrderData

    class Plan(TypedDict):
        privileged: bool  # the nursery is run by root, and each sandbox gets a host uid of its own
        uid_base: int  # the first of these uids
        root_uid: int  # the owner of / and /etc; no process has it
        host_mounts: int  # descriptor of the host's mount namespace
        host_proc: int  # descriptor of the host's /proc
        without: list[str]  # protections that a test leaves out
        environment: dict[str, str]
        landlock: bool
        filter: bytes
        disk: int
        cpus: int  # shown to programs, like the memory (shown_limits.py)
        memory: int
        mounts: int  # descriptor from which the sandbox reads its mounts; -1: there are none
        descriptors: int
        rlimit_memory: int | None
        rlimit_processes: int | None
        network: int | None  # descriptor of a network namespace that an earlier sandbox left, to use if it is unused
        unused_network: bytes  # the state of a network namespace that nobody has used
        spare: bool  # start a Python, or the first command, while the sandbox waits to be claimed
        first_command: dict[str, Any] | None  # see pool.as_started
        rehearse: bool
        furnish: Callable[[Any, int, int], None] | None  # adds sessions to an agent
        prepare: dict[str, Any] | None  # the archive and the imports of an environment

    class GroupLimits(TypedDict):
        memory: int
        disk: int
        cpu: float
        processes: int


def plan(
    configuration: dict[str, Any],
    groups: Any,
    order: OrderData,
    *,
    mounts: int,
    network: int | None,
    unused_network: bytes,
    spare: bool,
    first_command: dict[str, Any] | None,
    rehearse: bool,
    furnish: Callable[[Any, int, int], None] | None,
    prepare: dict[str, Any] | None = None,
) -> Plan:
    """How to build a sandbox.  Where no control group sets a limit, a resource limit inside the sandbox does."""
    shown = shown_limits.cpus(order)
    return {
        "privileged": configuration["privileged"],
        "uid_base": configuration["uid_base"],
        "root_uid": configuration["root_uid"],
        "host_mounts": configuration["host_mounts"],
        "host_proc": configuration["host_proc"],
        "without": configuration["without"],
        "environment": {**configuration["environment"], **shown_limits.variables(shown)},
        "landlock": landlock.abi() > 0,
        "filter": configuration["filters"][order["mounts"] == "write"],
        "disk": order["disk"],
        "cpus": shown,
        "memory": order["memory"],
        "mounts": mounts,
        "descriptors": configuration["descriptors"],
        "rlimit_memory": None if _by_group(groups, "memory") else order["memory"] + _own_memory(configuration),
        "rlimit_processes": None if _by_group(groups, "pids") else order["processes"] + 1,
        "network": network,
        "unused_network": unused_network,
        "spare": spare,
        "first_command": first_command,
        "rehearse": rehearse,
        "furnish": furnish,
        "prepare": prepare,
    }


def shape(groups: Any, order: OrderData) -> str:
    """The part of an order that is built into a sandbox and cannot be changed when the sandbox is claimed."""
    fixed = [order["disk"], order["mounts"]]
    if not _by_group(groups, "memory"):
        fixed.append(order["memory"])
    if not _by_group(groups, "pids"):
        fixed.append(order["processes"])
    return repr(fixed)


def group_limits(order: OrderData) -> GroupLimits:
    """The limits of the sandbox's control group."""
    return {
        "memory": order["memory"],
        "disk": order["disk"],
        "cpu": order["cpu"],
        "processes": order["processes"] + 1,  # the agent does not count
    }


def map_users(host_pid: int, uid: int, root_uid: int, proc: int) -> None:
    """Make a new sandbox's user `user` inside and `uid` outside; `proc` is the host's /proc.

    The owner of / and /etc is `root` inside.  An ordinary user can map only one id, and owns them.
    """
    users = [(root.UID, uid), (0, root_uid)] if root_uid != uid else [(root.UID, uid)]
    for kind in ("gid", "uid"):
        file = os.open(f"{host_pid}/{kind}_map", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, b"".join(b"%d %d 1\n" % user for user in users))
        finally:
            os.close(file)


def _by_group(groups: Any, controller: str) -> bool:
    return groups is not None and bool(groups.limits(controller))


def _own_memory(configuration: dict[str, Any]) -> int:
    """The memory that a fork shares with the nursery from the start; a program's own memory comes on top of it."""
    text = read(configuration["host_proc"], "self/status")
    return int(text.partition(b"VmData:")[2].split()[0]) * 1024
