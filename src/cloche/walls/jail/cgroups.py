"""Control groups: how much memory, processor time and how many processes a sandbox may use.

The launcher calls `detect()` while the host's /proc and /sys are still in view; from there on everything works
through directory descriptors, so that a nursery without the host's file system can go on (`to_description`,
`from_description`).  Version 1 (one tree per controller) and version 2 (one tree) both work, also mixed.

    cgroups = detect()                     cgroups.missing: {"cpu": "why, and what to do"}
    cgroups.sweep()                        remove what a dead one, or our own dead nursery, left behind
    group = cgroups.create()               cloche-<pid>-<start time>-<n>-<pid namespace>: of who called detect()
    group.limit(memory, disk, cpu, processes)
    pid = group.fork()                     os.fork(), the child being inside already; or attach(pid)
    selector.register(group.watch_fd, EVENT_READ) ... when readable: if group.check(files): kill, reason "memory"
    group.kill(); group.remove()           remove() is False while something in it still dies: call it again

What `memory` means.  A sandbox's files live in tmpfs mounts of size `disk`, and their pages are charged to its group
like its heap is.  The hard limit therefore is memory + disk: a backstop, at which the kernel itself kills
(`oom_kills`).  Below it, `check()` tells memory from files: it counts anonymous pages, swap, on version 2 kernel
memory, and all shared memory that is not a file in a tmpfs mount (memfd, System V, anonymous MAP_SHARED).  Page cache
and reclaimable kernel caches are free: the kernel drops them when it needs room.

When to check.  Version 2 tells us: memory.high slows down whoever passes it and raises an event; `check()` then moves
it up by what files and cache take.  On version 1 we sample through a timer, the sooner the less room is left: what goes
beyond `memory` for less than 0.1 s may go unnoticed, within the hard limit.  The two ways that version 1 has of its own
are worse.  A usage threshold on an eventfd waits for an RCU grace period at each registration: 8 to 16 ms during which
the nursery answers nobody.  And with oom_kill_disable, which holds processes exactly at the limit, only page faults
wait: write(2) into a tmpfs fails with ENOMEM, so that files would hit the memory limit too.  On version 1 kernel memory
is not counted but bounded by the hard limit only, because its statistics do not say how much of it is reclaimable:
looking up 336,000 names in /usr was charged as 174 MiB.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Cgroups", "Group", "detect"]

PREFIX = "cloche-"

_SIGKILL, _SIGCHLD = 9, 17  # `signal` imports `enum`, which costs a cold start milliseconds

_MIB = 1 << 20
_SLACK = 32 * _MIB  # between memory + disk and the hard limit: charges are counted in batches per processor
_STEP = 8 * _MIB  # version 2: how far beyond what is known memory.high is set; fewer events, less exact
_SHRINK_S = 0.25  # version 2: while memory.high is raised, look this often whether files went away
_PERIOD_US = 100_000
_SHARES = 256  # a quarter of the default weight: the server and the nursery go first

# Version 1 samples after room / _FASTEST, within these bounds.  Faulting in fresh memory reaches 2 to 5 GB/s per core.
_FASTEST = 8e9
_SOONEST_S, _LATEST_S = 0.004, 0.1

_LIMIT_FILES: tuple[dict[str, str], ...] = (
    {},
    {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "cpuacct": "cpuacct.usage", "pids": "pids.max"},
    {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"},
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: clone3 below must not give up the interpreter lock


class Cgroups:
    """The directories below which groups can be made: one per version 1 controller, one for all of version 2."""

    def __init__(
        self, places: list[tuple[int, int, list[str]]], missing: dict[str, str], owner: str, namespace: int
    ) -> None:
        self.places = places  # (directory descriptor, version, controllers)
        self.missing = missing
        self.owner = owner  # the process that called `detect`: it outlives its nursery
        self.namespace = namespace  # of pids, in which that process has this number
        self._made = 0

    def limits(self, controller: str) -> bool:
        """Can this be limited here: "memory", "cpu" or "pids"?"""
        return any(controller in controllers for _, _, controllers in self.places)

    @property
    def controllers(self) -> dict[str, int]:
        """What can be limited here, and through which version."""
        return {controller: version for _, version, controllers in self.places for controller in controllers}

    def create(self) -> Group:
        """A new, empty, unlimited group."""
        self._made += 1
        full = f"{PREFIX}{self.owner}-{self._made}-{self.namespace}"
        made: list[int] = []
        try:
            for place, _, _ in self.places:
                os.mkdir(full, 0o755, dir_fd=place)
                made.append(place)
            return Group(full, self.places)
        except OSError:
            for place in made:
                os.rmdir(full, dir_fd=place)
            raise

    def sweep(self) -> list[str]:
        """Kill and remove the groups of dead owners, and our own; returns those that are still busy: sweep again.

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
                is_leaf = name.endswith("-nursery")  # which a launcher moved itself into; no sandbox: never kill there
                try:
                    if not is_leaf:
                        _kill_in(name, place, version)
                    if not _remove(name, place) and not is_leaf:
                        busy.append(name)
                except OSError:
                    pass  # another user's, or removed meanwhile
        return busy

    def to_description(self) -> dict[str, Any]:
        """Plain data for another program; `descriptors()` have to be passed along under the same numbers."""
        return {
            "places": [list(place) for place in self.places],
            "missing": self.missing,
            "owner": self.owner,
            "namespace": self.namespace,
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Cgroups:
        """The other end of `to_description`; the owner stays the same."""
        places = [(int(fd), int(version), list(names)) for fd, version, names in description["places"]]
        return cls(places, dict(description["missing"]), str(description["owner"]), int(description["namespace"]))

    def descriptors(self) -> list[int]:
        """The descriptors that must survive until `from_description`."""
        return [place for place, _, _ in self.places]

    def close(self) -> None:
        """Give up the descriptors; groups stay."""
        for place, _, _ in self.places:
            os.close(place)
        self.places = []


class Group:
    """One sandbox's group.  Methods raise OSError when the kernel refuses: then the sandbox must not run."""

    def __init__(self, name: str, places: list[tuple[int, int, list[str]]]) -> None:
        self.name = name
        self._places = places
        self._directories: list[tuple[int, int]] = []  # (descriptor, version)
        self._of: dict[str, tuple[int, int]] = {}  # the same by controller
        for place, version, controllers in places:
            directory = (os.open(name, _DIRECTORY, dir_fd=place), version)
            self._directories.append(directory)
            for controller in controllers:
                self._of[controller] = directory
        self._kept: dict[str, int] = {}  # files that are read over and over
        self._memory = self._disk = self._high = 0
        self._most = 0  # the highest that was counted as memory
        self._last = 0  # what the group used at the latest check
        self._delay = _LATEST_S
        self._timer = -1
        self._epoll: select.epoll | None = None

    # Setting up

    def limit(self, memory: int, disk: int, cpu: float, processes: int) -> None:
        """Set all limits (bytes, bytes, processors, processes and threads); can be called again to change them."""
        self._limit_memory(memory, disk)
        self._limit_cpu(cpu)
        if "pids" in self._of:
            self._write("pids", "pids.max", processes)

    def fork(self) -> int:
        """os.fork(), the child being in the group from the start.

        Moving a process that runs already (`attach`) waits for an RCU grace period, 8 to 16 ms.  Neither a thread that
        moves itself (possible in version 1 only) nor a process born in a group (version 2 only) has to wait.
        """
        directory = next((fd for fd, version in self._directories if version == 2), None)
        pid = None if directory is None else _fork_into(directory)
        outside = [(fd, version) for fd, version in self._directories if version == 1 or pid is None]
        if pid is None:
            pid = os.fork()
        if pid == 0:
            try:
                for fd, version in outside:
                    _write(fd, "tasks" if version == 1 else "cgroup.procs", "0")
            except BaseException as error:
                os.write(2, f"cloche: could not enter {self.name}: {error}\n".encode())
                os._exit(71)  # nobody's code runs outside of its limits
        return pid

    def attach(self, pid: int) -> None:
        """Move a process into the group; slow, see `fork`."""
        for fd, _ in self._directories:
            _write(fd, "cgroup.procs", pid)

    # Watching

    @property
    def watch_fd(self) -> int | None:
        """Readable (EVENT_READ) when `check` should be called; None before `limit`, or if memory is not limited."""
        return None if self._timer < 0 else self._timer if self._epoll is None else self._epoll.fileno()

    def check(self, files: Callable[[], int] | None = None) -> bool:
        """Is the sandbox beyond its memory?  Call it when `watch_fd` is readable, or at any other time.

        `files` tells the bytes used in the sandbox's tmpfs mounts.  Without it, shared memory up to `disk` passes for
        files, and a memfd of that size goes unnoticed.
        """
        if self._timer < 0:
            return False
        _set_timer(self._timer, _SHRINK_S)  # also when the answer is yes: until it is dead nobody need be woken
        if _field(self._read_kept(self._oom_file()), b"oom_kill"):  # on version 2, this takes note of the event
            return True
        used = self._used()
        room, others = self._memory - used, 0
        # The first comparison is cheap and enough most of the time: everything together fits.
        if room < 0:
            counted, others = self._count(files)
            if counted > self._memory:
                counted, others = self._count(files)  # files come and go meanwhile: only what lasts is believed
            if counted > self._memory:
                return True
            room = self._memory - counted
        self._rearm(used, room, others)
        return False

    def usage(self) -> dict[str, int | float | None]:
        """What the sandbox uses and has used; None for what cannot be known here.

        `memory` is anonymous and kernel memory, `files` shared memory and what is in tmpfs.  `memory_peak` is the
        highest that is known: right unless files or cache grew after memory shrank.
        """
        usage: dict[str, int | float | None] = dict.fromkeys(
            ("memory", "files", "memory_peak", "cpu_s", "processes", "oom_kills", "processes_refused")
        )
        if "memory" in self._of:
            memory, files = self._statistics()
            self._most = max(self._most, memory)
            others = max(0, self._used() - memory)
            peak = self._peak()
            if peak is not None and self._memory:
                self._most = max(self._most, min(peak - others, self._memory))
            usage.update(memory=memory, files=files, memory_peak=self._most)
            # Not through the kept descriptor: it would take note of an event that only `check` may.
            usage["oom_kills"] = _field(self._read("memory", self._oom_file()), b"oom_kill")
        usage["cpu_s"] = self._cpu_s()
        if "pids" in self._of:
            usage["processes"] = int(self._read("pids", "pids.current"))
            usage["processes_refused"] = _field(self._read("pids", "pids.events"), b"max")
        return usage

    # Ending

    def kill(self) -> None:
        """SIGKILL for everything in the group; does not wait."""
        if self._directories:
            _kill_all(*self._of.get("pids", self._directories[0]))

    def remove(self) -> bool:
        """Remove the group; False while something in it is alive or dying.  Never blocks."""
        busy = [place for place, _, _ in self._places if not _remove(self.name, place)]
        if busy:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close all descriptors of the group; what a forked child does that must not reach it any more."""
        if self._epoll is not None:
            self._epoll.close()
        for fd in (self._timer, *self._kept.values(), *(fd for fd, _ in self._directories)):
            if fd >= 0:
                os.close(fd)
        self._epoll, self._timer, self._kept, self._directories, self._of = None, -1, {}, [], {}

    # Memory

    def _limit_memory(self, memory: int, disk: int) -> None:
        if "memory" not in self._of:
            return
        self._memory, self._disk = memory, disk
        hard = memory + disk + _SLACK
        fd, version = self._of["memory"]
        if version == 1:
            try:
                _write(fd, "memory.limit_in_bytes", hard)
            except OSError as error:
                if error.errno != errno.EINVAL:  # the limit with swap is lower and has to be raised first
                    raise
                _write(fd, "memory.memsw.limit_in_bytes", hard)
                _write(fd, "memory.limit_in_bytes", hard)
            _write(fd, "memory.memsw.limit_in_bytes", hard, optional=True)
        else:
            _write(fd, "memory.max", hard)
            _write(fd, "memory.swap.max", 0, optional=True)
            _write(fd, "memory.oom.group", 1, optional=True)
            self._high = memory
            _write(fd, "memory.high", memory)
        self._start_watch(version)

    def _start_watch(self, version: int) -> None:
        if self._timer < 0:
            self._timer = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            if self._timer < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create")
            if version == 2:
                # `selectors` knows no EPOLLPRI, which is how the file says that it changed.  But an epoll
                # descriptor can itself be watched for reading.
                self._epoll = select.epoll()
                self._epoll.register(self._timer, select.EPOLLIN)
                self._epoll.register(self._keep("memory.events"), select.EPOLLPRI)
                self._read_kept("memory.events")  # what was before does not count
        if version == 1:
            self._delay = _SOONEST_S
            _set_timer(self._timer, _SOONEST_S)

    def _rearm(self, used: int, room: int, others: int) -> None:
        if self._of["memory"][1] == 1:
            # Twice as long when nothing has changed: a sandbox that sits just below its limit must not keep us busy.
            still = abs(self._last - used) < _MIB
            self._last = used
            soonest = max(room / _FASTEST, _SOONEST_S)
            self._delay = min(max(soonest, self._delay * 2 if still else 0), _LATEST_S)
            _set_timer(self._timer, self._delay)
            return
        high = self._memory + (others + _STEP if others else 0)
        if high != self._high:
            _write(self._of["memory"][0], "memory.high", high)
            self._high = high
        # No event tells that files went away: while it is raised, look.
        _set_timer(self._timer, _SHRINK_S if high > self._memory else 0)

    def _used(self) -> int:
        return int(self._read_kept("memory.usage_in_bytes" if self._of["memory"][1] == 1 else "memory.current"))

    def _peak(self) -> int | None:
        fd, version = self._of["memory"]
        try:  # memory.peak: since Linux 5.19
            return int(_read(fd, "memory.max_usage_in_bytes" if version == 1 else "memory.peak"))
        except FileNotFoundError:
            return None

    def _oom_file(self) -> str:
        return "memory.oom_control" if self._of["memory"][1] == 1 else "memory.events"

    def _count(self, files: Callable[[], int] | None) -> tuple[int, int]:
        """What counts as memory, and what else is charged to the group."""
        before = files() if files else self._disk
        used = self._used()
        memory, shared = self._statistics()
        # Files that grow meanwhile are known after, files that go away were known before.
        excess = max(0, shared - max(before, files() if files else 0))
        memory += excess
        self._most = max(self._most, memory)
        return memory, max(0, used - memory)

    def _statistics(self) -> tuple[int, int]:
        """Anonymous, swapped and kernel memory; shared memory (tmpfs included)."""
        text = self._read_kept("memory.stat")
        if self._of["memory"][1] == 1:
            return _field(text, b"total_rss") + _field(text, b"total_swap"), _field(text, b"total_shmem")
        # Pipe buffers are in no field but `kernel` (since Linux 5.18).
        kernel = _field(text, b"kernel") - _field(text, b"slab_reclaimable")
        if kernel < 0:
            kernel = sum(_field(text, name) for name in (b"kernel_stack", b"pagetables", b"slab_unreclaimable"))
        return _field(text, b"anon") + kernel + _field(text, b"sock"), _field(text, b"shmem")

    # Processor time

    def _limit_cpu(self, cpu: float) -> None:
        if "cpu" not in self._of:
            return
        quota = max(1000, int(cpu * _PERIOD_US))
        fd, version = self._of["cpu"]
        if version == 2:
            _write(fd, "cpu.max", f"{quota} {_PERIOD_US}")
            _write(fd, "cpu.weight", _SHARES * 100 // 1024, optional=True)
            return
        _write(fd, "cpu.cfs_period_us", _PERIOD_US)
        try:
            _write(fd, "cpu.cfs_quota_us", quota)
        except OSError as error:
            if error.errno != errno.EINVAL:  # more than the group above us has: then that one is the limit
                raise
        _write(fd, "cpu.shares", _SHARES, optional=True)

    def _cpu_s(self) -> float | None:
        if "cpuacct" in self._of:
            return int(self._read("cpuacct", "cpuacct.usage")) / 1e9
        for fd, version in self._directories:
            if version == 2:  # there without any controller
                return _field(_read(fd, "cpu.stat"), b"usage_usec") / 1e6
        return None

    # Files of the group

    def _write(self, controller: str, name: str, value: object) -> None:
        _write(self._of[controller][0], name, value)

    def _read(self, controller: str, name: str) -> bytes:
        return _read(self._of[controller][0], name)

    def _keep(self, name: str) -> int:
        if name not in self._kept:
            self._kept[name] = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._of["memory"][0])
        return self._kept[name]

    def _read_kept(self, name: str) -> bytes:
        return os.pread(self._keep(name), 16384, 0)


def detect() -> Cgroups:
    """Find out, by trying, what can be limited below the groups that this process is in."""
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
        found = _detect_v2(directory, path != root, owner, missing) if version == 2 else _open_directory(directory)
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
    """Controller -> path of the group that we are in; version 2 under the name ''."""
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
    own = _open_directory(directory)
    if own is None:
        return None
    if not _exists("cgroup.type", own):  # the real root
        _enable(own, missing, directory)
        return own
    # Not even tried while we are in it: cpu and pids would be handed on, and turn it into a group for threads only.
    if _read(own, "cgroup.procs").split() == [str(os.getpid()).encode()]:
        leaf = f"{PREFIX}{owner}-nursery"
        try:
            os.mkdir(leaf, 0o755, dir_fd=own)
            _write(own, leaf + "/cgroup.procs", "0")
            if _enable(own, missing, directory):
                return own
            _write(own, "cgroup.procs", "0")
        except OSError:
            pass
        _remove(leaf, own)
    elif has_parent:
        above = _open_directory("..", own)
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


def _enable(group: int, missing: dict[str, str], path: str) -> list[str]:
    """Hand controllers on to a version 2 group's children; returns those that now are."""
    offered = _read(group, "cgroup.controllers").decode().split()
    enabled = _read(group, "cgroup.subtree_control").decode().split()
    for name in _LIMIT_FILES[2]:
        if name not in offered:
            missing.setdefault(name, f"The group {path} is not given the {name} controller. {_DELEGATE}")
        elif name not in enabled:
            try:
                _write(group, "cgroup.subtree_control", "+" + name)
                enabled.append(name)
            except OSError as error:
                missing.setdefault(name, f"The group {path} cannot hand on {name}: {error.strerror}. {_DELEGATE}")
    return [name for name in enabled if name in _LIMIT_FILES[2]]


def _probe(place: int, version: int, wanted: list[str], owner: str, missing: dict[str, str]) -> list[str]:
    """Which of the wanted controllers can be set in a group made here."""
    name = f"{PREFIX}{owner}-probe"
    try:
        os.mkdir(name, 0o755, dir_fd=place)
    except OSError as error:
        for controller in wanted:
            missing[controller] = (
                f"No group can be made for {controller} ({error.strerror}); start as root or delegate."
            )
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


def _kill_in(name: str, place: int, version: int) -> None:
    directory = os.open(name, _DIRECTORY, dir_fd=place)
    try:
        _kill_all(directory, version)
    finally:
        os.close(directory)


def _kill_all(directory: int, version: int) -> None:
    if version == 2:
        try:
            _write(directory, "cgroup.kill", "1")
            return
        except FileNotFoundError:  # before Linux 5.14
            pass
    # Where the pids controller is, no more can be born.
    _write(directory, "pids.max", 0, optional=True)
    seen: set[int] = set()
    for _ in range(100):  # a fork bomb is outrun after a few rounds; the caller tries again if not
        fresh = {int(pid) for pid in _read(directory, "cgroup.procs").split()} - seen - {0, os.getpid()}
        if not fresh:
            return
        for pid in fresh:
            try:
                os.kill(pid, _SIGKILL)
            except ProcessLookupError:
                pass
        seen |= fresh


def _remove(name: str, place: int) -> bool:
    try:
        os.rmdir(name, dir_fd=place)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


class _CloneArgs(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack"),
            *("stack_size", "tls", "set_tid", "set_tid_size", "cgroup"),
        )
    ]


_SYS_clone3, _CLONE_INTO_CGROUP = 435, 0x200000000


def _fork_into(directory: int) -> int | None:
    """os.fork() with CLONE_INTO_CGROUP; None where that is not to be had (Linux before 5.7, some containers).

    Skips the C library's part of fork, which is about threads: have none.
    """
    arguments = _CloneArgs(flags=_CLONE_INTO_CGROUP, exit_signal=_SIGCHLD, cgroup=directory)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(
        ctypes.c_long(_SYS_clone3), ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments))
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid > 0:
        return pid
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EACCES):
        return None
    raise OSError(number, f"clone3: {os.strerror(number)}")


def _set_timer(timer: int, delay_s: float) -> None:
    """Let a timer descriptor become readable once after `delay_s`, and not be so before; 0: never."""
    whole = int(delay_s)
    value = (ctypes.c_long * 4)(0, 0, whole, int((delay_s - whole) * 1e9))
    if _libc.timerfd_settime(timer, 0, value, None) < 0:
        raise OSError(ctypes.get_errno(), "timerfd_settime")


def _exists(name: str, directory: int) -> bool:
    return os.access(name, os.F_OK, dir_fd=directory)


def _open_directory(path: str, above: int | None = None) -> int | None:
    try:
        return os.open(path, _DIRECTORY, dir_fd=above)
    except OSError:
        return None


def _read(directory: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _write(directory: int, name: str, value: object, *, optional: bool = False) -> None:
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        if optional:
            return
        raise
    try:
        os.write(fd, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (writing {value})", name) from None
    finally:
        os.close(fd)


def _field(text: bytes, name: bytes) -> int:
    """The number after `name` at the beginning of a line; 0 if there is none."""
    start = (b"\n" + text).find(b"\n" + name + b" ")
    if start < 0:
        return 0
    start += len(name) + 1
    end = text.find(b"\n", start)
    return int(text[start : end if end >= 0 else len(text)])
