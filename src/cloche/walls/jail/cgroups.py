"""Control groups limit the memory, the processor time and the number of processes of a sandbox.

The launcher calls `detect()` while the host's /proc and /sys are still in view; from there on everything works
through directory descriptors, so that a nursery without the host's file system can go on (`to_description`,
`from_description`).  Version 1 (one tree per controller) and version 2 (one tree) both work, also mixed.

    cgroups = detect()                     cgroups.missing: {"cpu": "why, and what to do"}
    cgroups.sweep()                        remove the groups of dead owners, and of our own dead nursery
    group = cgroups.create()               cloche-<pid>-<start time>-<n>-<pid namespace>: of the caller of detect()
    group.limit(memory, disk, cpu, processes)
    pid = group.fork()                     os.fork(), the child being inside already
    selector.register(group.watch_fd, EVENT_READ) ... when readable: if group.check(files): kill, reason "memory"
    group.kill(); group.remove()           remove() is False while processes in it still die: call it again

The meaning of `memory`.  A sandbox's files live in tmpfs mounts of size `disk`, and the kernel charges their pages to
the group like its heap.  Therefore the hard limit is memory + disk: a backstop, at which the kernel itself kills
(`oom_kills`).  Below it, `check()` separates memory from files: it counts anonymous pages, swap, on version 2 kernel
memory, and all shared memory that is not a file in a tmpfs mount (memfd, System V, anonymous MAP_SHARED).  Page cache
and reclaimable kernel caches are not counted: the kernel drops them when it needs room.

The time of a check.  Version 2 raises an event: memory.high slows down processes that pass it and notifies us;
`check()` then raises it by the size of files and cache.  On version 1 we sample with a timer, the sooner the less room
is left: an excess over `memory` of less than 0.1 s may go unnoticed, within the hard limit.  Version 1 has two
mechanisms of its own; both are worse.  A usage threshold on an eventfd waits for an RCU grace period at each
registration: 8 to 16 ms during which the nursery answers no claim.  And with oom_kill_disable, which holds processes
exactly at the limit, only page faults wait: write(2) into a tmpfs fails with ENOMEM, so that files would hit the memory
limit too.  On version 1, kernel memory is not counted and only bounded by the hard limit, because its statistics do not
show how much of it is reclaimable: looking up 336,000 names in /usr was charged as 174 MiB.
"""

from __future__ import annotations

import os
from errno import EROFS

from cloche.walls.jail import cgroup_files
from cloche.walls.jail.group import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Cgroups", "Group", "detect"]

PREFIX = "cloche-"
_LIMIT_FILES: tuple[dict[str, str], ...] = (
    {},
    {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "cpuacct": "cpuacct.usage", "pids": "pids.max"},
    {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"},
)


class Cgroups:
    """The directories below which groups can be made: one per version 1 controller, one for all of version 2."""

    def __init__(
        self, places: list[tuple[int, int, list[str]]], missing: dict[str, str], owner: str, namespace: int
    ) -> None:
        self.places = places  # (directory descriptor, version, controllers)
        self.missing = missing
        self.owner = owner  # the process that called `detect`, which outlives its nursery
        self.namespace = namespace  # of pids, in which that process has this number
        self._made = 0

    def limits(self, controller: str) -> bool:
        """Return whether "memory", "cpu" or "pids" can be limited here."""
        return any(controller in controllers for _, _, controllers in self.places)

    @property
    def controllers(self) -> dict[str, int]:
        """The controllers that can be limited here, with their versions."""
        return {controller: version for _, version, controllers in self.places for controller in controllers}

    def create(self, kind: Callable[[str, list[tuple[int, int, list[str]]]], Group] = Group) -> Group:
        """Make an empty group without limits."""
        self._made += 1
        full = f"{PREFIX}{self.owner}-{self._made}-{self.namespace}"
        made: list[int] = []
        try:
            for place, _, _ in self.places:
                os.mkdir(full, 0o755, dir_fd=place)
                made.append(place)
            return kind(full, self.places)
        except OSError:
            for place in made:
                os.rmdir(full, dir_fd=place)
            raise

    def sweep(self) -> list[str]:
        """Kill and remove the groups of dead owners, and our own; return the groups that are still busy: sweep again.

        For the process that called `detect`, and only while it has no living nursery: at its start and at its end.
        Elsewhere nothing happens, since in another /proc the owners of living groups would look dead.
        """
        if not self.owner or _name_of("self") != self.owner:
            return []
        busy = []
        for place, version, _ in self.places:
            for name in os.listdir(place):
                owner = _owner_in(name)
                if name.count("-") > 3 and not name.endswith(f"-{self.namespace}"):
                    continue  # made in another pid namespace, whose living processes we cannot see
                if owner is None or (owner != self.owner and _name_of(owner.partition("-")[0]) == owner):
                    continue
                is_leaf = name.endswith("-nursery")  # of a launcher, which moved itself there: never kill its processes
                try:
                    if not is_leaf:
                        cgroup_files.kill_in(name, place, version)
                    if not cgroup_files.remove(name, place) and not is_leaf:
                        busy.append(name)
                except OSError:
                    pass  # belongs to another user, or was removed meanwhile
        return busy

    def to_description(self) -> dict[str, Any]:
        """Plain data for another program, which also needs the `descriptors()` under the same numbers."""
        return {
            "places": [list(place) for place in self.places],
            "missing": self.missing,
            "owner": self.owner,
            "namespace": self.namespace,
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Cgroups:
        """Restore the object from `to_description`; the owner stays the same."""
        places = [(int(fd), int(version), list(names)) for fd, version, names in description["places"]]
        return cls(places, dict(description["missing"]), str(description["owner"]), int(description["namespace"]))

    def descriptors(self) -> list[int]:
        """The descriptors that must survive until `from_description`."""
        return [place for place, _, _ in self.places]

    def close(self) -> None:
        """Close the descriptors; the groups stay."""
        for place, _, _ in self.places:
            os.close(place)
        self.places = []


def detect() -> Cgroups:
    """Find out, by trying, which limits can be set below the groups of this process."""
    owner = _name_of("self")
    if owner is None:
        return Cgroups([], dict.fromkeys(("memory", "cpu", "pids"), "/proc is not mounted."), "", 0)
    own = _own_groups()
    places: list[tuple[int, int, list[str]]] = []
    missing: dict[str, str] = {}
    seen: set[str] = set()
    for version, names, root, point in _mounts():
        path = own.get(names[0] if version == 1 else "")
        wanted = [name for name in names if name in _LIMIT_FILES[version] and name not in seen]
        if path is None or not wanted or not (path == root or path.startswith(root.rstrip("/") + "/")):
            continue
        directory = os.path.join(point, os.path.relpath(path, root))
        found = (
            _detect_v2(directory, path != root, owner, missing)
            if version == 2
            else cgroup_files.open_directory(directory)
        )
        if found is None:
            continue
        usable = _probe(found, version, wanted, owner, missing)
        seen.update(usable)
        if usable:
            places.append((found, version, usable))
        else:
            os.close(found)
    for controller in ("memory", "cpu", "pids"):
        if controller in seen:
            missing.pop(controller, None)
        else:
            missing.setdefault(controller, f"No cgroup file system with the {controller} controller is mounted.")
    return Cgroups(places, missing, owner, os.stat("/proc/self/ns/pid").st_ino)


def _own_groups() -> dict[str, str]:
    """Controller -> path of the group of this process; version 2 has the name ''."""
    own = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                own[name] = path
    return own


def _mounts() -> list[tuple[int, list[str], str, str]]:
    """Mounted cgroup trees: version, controllers, the group that is the mount's root, where it is mounted."""
    mounts = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            if " - cgroup" not in line:
                continue
            left, right = line.rstrip("\n").split(" - ", 1)
            kind, _, options = right.split(" ", 2)
            root, point = (field.replace("\\040", " ") for field in left.split(" ")[3:5])
            if kind == "cgroup2":
                mounts.append((2, list(_LIMIT_FILES[2]), root, point))
            elif kind == "cgroup":
                names = [name for name in options.split(",") if name in _LIMIT_FILES[1]]
                if names:
                    mounts.append((1, names, root, point))
    return mounts


def _detect_v2(directory: str, has_parent: bool, owner: str, missing: dict[str, str]) -> int | None:
    """The version 2 group below which ours can be made, its controllers handed on to children.

    A group (other than the real root) hands on controllers only while no process sits in it itself.  If we are alone in
    ours, we move down into a leaf.  If not, the group above may do: it hands them on to us already.
    """
    own = cgroup_files.open_directory(directory)
    if own is None:
        return None
    if not cgroup_files.exists("cgroup.type", own):  # the real root
        _enable(own, missing, directory)
        return own
    # Not tried while this process is in it: handing on cpu and pids would turn it into a group for threads only.
    if cgroup_files.read(own, "cgroup.procs").split() == [str(os.getpid()).encode()]:
        leaf = f"{PREFIX}{owner}-nursery"
        try:
            os.mkdir(leaf, 0o755, dir_fd=own)
            cgroup_files.write(own, leaf + "/cgroup.procs", "0")
            if _enable(own, missing, directory):
                return own
            cgroup_files.write(own, "cgroup.procs", "0")
        except OSError:
            pass
        cgroup_files.remove(leaf, own)
    elif has_parent:
        above = cgroup_files.open_directory("..", own)
        if above is not None:
            if os.access("cgroup.procs", os.W_OK, dir_fd=above) and _enable(above, missing, os.path.dirname(directory)):
                os.close(own)
                return above
            os.close(above)
    os.close(own)
    for name in _LIMIT_FILES[2]:
        missing.setdefault(name, f"Cloche may not divide the group {directory}. {_DELEGATE}")
    return None


_DELEGATE = (
    "Start it in a group of its own: Delegate=yes in a systemd service, or systemd-run --scope -p Delegate=yes "
    "(with --user for an ordinary user)."
)
_READ_ONLY = (  # even for root: the creator of the container decides
    "in a container, limit all sandboxes together by its own limits (docker run --memory --cpus --pids-limit), or run "
    "Cloche outside of it"
)


def _enable(group: int, missing: dict[str, str], path: str) -> list[str]:
    """Hand controllers on to the children of a version 2 group; return those that were handed on."""
    offered = cgroup_files.read(group, "cgroup.controllers").decode().split()
    enabled = cgroup_files.read(group, "cgroup.subtree_control").decode().split()
    for name in _LIMIT_FILES[2]:
        if name not in offered:
            missing.setdefault(name, f"The group {path} is not given the {name} controller. {_DELEGATE}")
        elif name not in enabled:
            try:
                cgroup_files.write(group, "cgroup.subtree_control", "+" + name)
                enabled.append(name)
            except OSError as error:
                missing.setdefault(name, f"The group {path} cannot hand on {name}: {error.strerror}. {_DELEGATE}")
    return [name for name in enabled if name in _LIMIT_FILES[2]]


def _probe(place: int, version: int, wanted: list[str], owner: str, missing: dict[str, str]) -> list[str]:
    """The wanted controllers that can be set in a group made here."""
    name = f"{PREFIX}{owner}-probe"
    try:
        os.mkdir(name, 0o755, dir_fd=place)
    except OSError as error:
        remedy = _READ_ONLY if error.errno == EROFS else "start as root or delegate"
        for controller in wanted:
            missing[controller] = f"No group can be made for {controller} ({error.strerror}); {remedy}."
        return []
    try:
        usable = [
            controller
            for controller in wanted
            if os.access(f"{name}/{_LIMIT_FILES[version][controller]}", os.W_OK, dir_fd=place)
        ]
    finally:
        os.rmdir(name, dir_fd=place)
    for controller in wanted:
        if controller not in usable:
            missing.setdefault(controller, f"The {controller} controller is not handed on to groups made here.")
    return usable


def _name_of(pid: str) -> str | None:
    """`pid-starttime`, which no later process will have; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            number, rest = file.read().split(b" ", 1)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in brackets may contain anything.
    return f"{int(number)}-{int(rest.rpartition(b')')[2].split()[19])}"


def _owner_in(name: str) -> str | None:
    """`pid-starttime` from the name of a group of ours."""
    parts = name.split("-")
    if len(parts) < 4 or parts[0] + "-" != PREFIX or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return f"{parts[1]}-{parts[2]}"


def of_configuration(configuration: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    """A nursery's control groups, if it has any, and how it makes the group of a sandbox."""
    groups = Cgroups.from_description(configuration["cgroups"]) if configuration.get("cgroups") else None
    if groups is None or groups.limits("memory"):
        return groups, Group
    from cloche.walls.jail.counted_group import CountedGroup  # seldom needed, and not to be found later

    return groups, lambda name, places: CountedGroup(name, places, configuration["host_proc"])
