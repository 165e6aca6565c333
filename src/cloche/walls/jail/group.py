"""One sandbox's control group: its limits, its usage, and when to check its memory.

cgroups.py explains what `memory` means and how it differs from files.
"""

from __future__ import annotations

import errno
import os
import select
import time
from _struct import pack

from cloche.agent import libc
from cloche.walls.jail import cgroup_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SIGCHLD, _SIGCONT, _SIGSTOP = 17, 18, 19

_MIB = 1 << 20
_SLACK = 32 * _MIB  # between memory + disk and the hard limit: charges are counted in batches per processor
_SOCKETS = 32 * _MIB  # version 1: full buffers of TCP and UDP, which the hard limit does not count
_COUNTED = (
    *("memory", "files", "memory_peak", "memory_least", "oom_kills", "cpu_s"),
    *("processes", "processes_peak", "processes_refused"),
)
_USUAL_PROCESSES = 4  # at a time, in a sandbox that runs a single program
_LEFT = 2 * _MIB  # may still be charged to an empty group that is used again
_STEP = 8 * _MIB  # version 2: memory.high is set this far above the known use; more is less exact, with fewer events
_SHRINK_S = 0.25  # version 2: while memory.high is raised, check this often whether files were removed
_AGAIN_S = 0.01  # after a group was beyond its limit: a process dies meanwhile, and the next may be as large
_PERIOD_US = 100_000
_SHARES = 256  # a quarter of the default weight: the server and the nursery have priority

# Version 1 samples after room / _FASTEST, within these bounds.  Faulting in fresh memory reaches 2 to 5 GB/s per core.
_FASTEST = 8e9
_SOONEST_S, _LATEST_S = 0.004, 0.1

_timerfd_create = libc.function("timerfd_create", "ll")
_timerfd_settime = libc.function("timerfd_settime", "llzz")
# clone3 below must not release the interpreter's lock, and these functions need it.
_syscall = libc.function("syscall", holds_lock=True)
_before_fork = libc.function("PyOS_BeforeFork", holds_lock=True)
_after_fork_in_child = libc.function("PyOS_AfterFork_Child", holds_lock=True)
_after_fork_in_parent = libc.function("PyOS_AfterFork_Parent", holds_lock=True)


class Group:
    """One sandbox's group.  Methods raise OSError when the kernel refuses: then the sandbox must not run."""

    def __init__(self, name: str, places: list[tuple[int, int, list[str]]]) -> None:
        self.name = name
        self._places = places
        self._directories: list[tuple[int, int]] = []  # (descriptor, version)
        self._of: dict[str, tuple[int, int]] = {}  # the same by controller
        for place, version, controllers in places:
            directory = (os.open(name, cgroup_files.DIRECTORY, dir_fd=place), version)
            self._directories.append(directory)
            for controller in controllers:
                self._of[controller] = directory
        self._kept: dict[tuple[str, str], int] = {}  # open files that are read repeatedly, by controller and name
        self._memory = self._disk = self._high = 0
        self._most = 0  # the highest amount that was counted as memory
        self._most_in_all = 0  # the same, by the kernel's peak
        self._last = 0  # the group's use at the latest check
        self._oom_kills_noted = 0
        self._cpu_before = 0.0
        self._delay = _LATEST_S
        self._timer = -1
        self._epoll: select.epoll | None = None
        self.host_pid = 0  # the sandbox's first process

    # --- setting up

    def limit(self, memory: int, disk: int, cpu: float, processes: int) -> None:
        """Set all limits (bytes, bytes, processors, processes and threads); can be called again to change them."""
        self._limit_memory(memory, disk)
        self._limit_cpu(cpu)
        if "pids" in self._of:
            self._write("pids", "pids.max", processes)

    def fork(self) -> int:
        """Fork like os.fork(), with the child in the group from the start.

        Moving a process that runs already waits for an RCU grace period, 8 to 16 ms.  Neither a thread that
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
                    cgroup_files.write(fd, "tasks" if version == 1 else "cgroup.procs", "0")
            except BaseException as error:
                os.write(2, f"cloche: could not enter {self.name}: {error}\n".encode())
                os._exit(71)  # no code runs without its limits
        return pid

    # --- watching

    @property
    def watch_fd(self) -> int | None:
        """Readable (EVENT_READ) when `check` should be called; None before `limit`, or if memory is not limited."""
        return None if self._timer < 0 else self._timer if self._epoll is None else self._epoll.fileno()

    @property
    def counts_cpu(self) -> bool:
        """Whether this host counts the processor time of a group."""
        return "cpuacct" in self._of or any(version == 2 for _, version in self._directories)

    def begin_account(self) -> None:
        """Count processor time from now on: the time for making the sandbox and starting a command is not the caller's.

        Call it before the sandbox is handed over: its program may have ended before the nursery hears that it began.
        """
        self._cpu_before = self._cpu_s() or 0.0

    def begin(self) -> None:
        """Watch the memory from now on.  It is empty, so the first check has time."""
        if self._timer >= 0 and self._of["memory"][1] == 1:
            self._delay = min(max(self._memory / _FASTEST, _SOONEST_S), _LATEST_S)
            set_timer(self._timer, self._delay)

    def check(self, files: Callable[[], int] | None = None) -> bool:
        """Return whether the sandbox uses more than its memory.  Call it when `watch_fd` is readable, or at any time.

        `files` returns the bytes used in the sandbox's tmpfs mounts.  Without it, shared memory up to `disk` counts as
        files, and a memfd of that size goes unnoticed.
        """
        if self._timer < 0:
            return False
        set_timer(self._timer, _AGAIN_S)  # in case the answer is yes
        # On version 2, reading this file also clears the event.
        killed = cgroup_files.field(self._read_kept("memory", self._oom_file()), b"oom_kill")
        if killed > self._oom_kills_noted:
            self._oom_kills_noted = killed
            return True
        used = self._used()
        room, others = self._memory - used, 0
        # The first comparison is cheap and enough most of the time: everything together fits.
        if room < 0:
            counted, others = self._count(files)
            if counted > self._memory:
                counted, others = self._count(files)  # files may have changed meanwhile: count twice
            if counted > self._memory:
                return True
            room = self._memory - counted
        self._rearm(used, room, others)
        return False

    def usage(self) -> dict[str, int | float | None]:
        """The usage of the sandbox; None for values that this host does not count.

        `memory` is anonymous and kernel memory, `files` is shared memory and the contents of tmpfs.  The kernel has one
        peak for both together.  So `memory_peak` is an estimate: too high by the files that are gone by now, too low if
        files or cache grew after memory shrank.  `memory_least` is the highest amount that was seen.
        """
        usage: dict[str, int | float | None] = dict.fromkeys(_COUNTED)
        if "memory" in self._of:
            memory, files = self._statistics()
            self._most = max(self._most, memory)
            others = max(0, self._used() - memory)
            peak = self._peak("memory", "memory.max_usage_in_bytes" if self._of["memory"][1] == 1 else "memory.peak")
            if peak is not None and self._memory:
                self._most_in_all = max(self._most_in_all, min(peak - others, self._memory))
            most = max(self._most, self._most_in_all)
            usage.update(memory=memory, files=files, memory_peak=most, memory_least=self._most)
            # Version 2: not through the open descriptor: reading it clears an event that only `check` may clear.
            read = self._read_kept if self._of["memory"][1] == 1 else self._read
            usage["oom_kills"] = cgroup_files.field(read("memory", self._oom_file()), b"oom_kill")
        spent = self._cpu_s()
        usage["cpu_s"] = None if spent is None else max(0.0, spent - self._cpu_before)
        if "pids" in self._of:
            usage["processes"] = int(self._read_kept("pids", "pids.current"))
            usage["processes_peak"] = self._peak("pids", "pids.peak")
            usage["processes_refused"] = cgroup_files.field(self._read_kept("pids", "pids.events"), b"max")
        return usage

    # --- ending

    def renew(self) -> bool:
        """Reset an empty group for another sandbox with the same limits; False when that is not possible.

        Only version 1 can forget its peak, and no version forgets that a limit was met.  Memory that is still charged
        and freed later (tmpfs, System V) prevents it, too: the next sandbox would seem to have used that memory.
        """
        if (
            any(version == 2 for _, version in self._directories)
            or not {"memory", "cpuacct", "pids"} <= self._of.keys()
        ):
            return False
        try:
            met = cgroup_files.field(self._read("pids", "pids.events"), b"max")
            met = met or (self._peak("pids", "pids.peak") or 0) > _USUAL_PROCESSES  # which is never forgotten
            if met or cgroup_files.field(self._read("memory", self._oom_file()), b"oom_kill"):
                return False
            if self._used() > _LEFT:
                return False
            self._write("memory", "memory.max_usage_in_bytes", 0)
            self._write("cpuacct", "cpuacct.usage", 0)
        except OSError:
            return False
        self._most = self._most_in_all = self._last = 0
        self.begin_account()
        self.begin()
        return True

    def processes(self) -> set[int]:
        """The processes in the group."""
        directory, _ = self._of.get("pids", self._directories[0])
        return cgroup_files.listed(directory)

    def kill_all_but(self, spared: set[int]) -> bool:
        """Kill all but some processes; False when new ones kept coming.  Does not wait."""
        directory, _ = self._of.get("pids", self._directories[0])
        return cgroup_files.kill_listed(directory, spared)

    def stop(self, stop: bool, first: int) -> bool:
        """Stop or continue all processes, with `first` (the sandbox's pid 1) as the last one; False when that fails.

        Version 2 has a freezer.  Version 1 sends signals.  Children go on before their parents, so that a shell finds
        its jobs running.
        """
        for fd, version in self._directories:
            if version == 2:
                cgroup_files.write(fd, "cgroup.freeze", int(stop))
                return True
        if not self._directories:
            return False  # this host has no control groups for us
        directory, _ = self._of.get("pids", self._directories[0])
        return cgroup_files.signal_listed(directory, _SIGSTOP if stop else _SIGCONT, first)

    def kill(self) -> None:
        """Kill everything in the group; does not wait."""
        if self._directories:
            cgroup_files.kill_all(*self._of.get("pids", self._directories[0]))

    def remove(self) -> bool:
        """Remove the group; False while a process in it is alive or dying.  Never blocks."""
        busy = [place for place, _, _ in self._places if not cgroup_files.remove(self.name, place)]
        if busy:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close all descriptors of the group, in a forked child that must not reach it any more."""
        if self._epoll is not None:
            self._epoll.close()
        for fd in (self._timer, *self._kept.values(), *(fd for fd, _ in self._directories)):
            if fd >= 0:
                os.close(fd)
        self._epoll, self._timer, self._kept, self._directories, self._of = None, -1, {}, [], {}

    # --- memory

    def _limit_memory(self, memory: int, disk: int) -> None:
        if "memory" not in self._of:
            return
        self._memory, self._disk = memory, disk
        hard = memory + disk + _SLACK
        fd, version = self._of["memory"]
        if version == 1:
            try:
                cgroup_files.write(fd, "memory.limit_in_bytes", hard)
            except OSError as error:
                if error.errno != errno.EINVAL:  # the limit with swap is lower and has to be raised first
                    raise
                cgroup_files.write(fd, "memory.memsw.limit_in_bytes", hard)
                cgroup_files.write(fd, "memory.limit_in_bytes", hard)
            cgroup_files.write(fd, "memory.memsw.limit_in_bytes", hard, optional=True)
            cgroup_files.write(fd, "memory.kmem.tcp.limit_in_bytes", _SOCKETS, optional=True)
        else:
            cgroup_files.write(fd, "memory.max", hard)
            cgroup_files.write(fd, "memory.swap.max", 0, optional=True)
            self._high = memory
            cgroup_files.write(fd, "memory.high", memory)
        self._start_watch(version)

    def _start_watch(self, version: int) -> None:
        if self._timer < 0:
            self._timer = _timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            if self._timer < 0:
                raise libc.failure("timerfd_create")
            if version == 2:
                # The file signals a change with EPOLLPRI, which `selectors` does not support.  But an epoll
                # descriptor can itself be watched for reading.
                self._epoll = select.epoll()
                self._epoll.register(self._timer, select.EPOLLIN)
                self._epoll.register(self._keep("memory", "memory.events"), select.EPOLLPRI)
                self._read_kept("memory", "memory.events")  # clears earlier events
        if version == 1:
            self._delay = _SOONEST_S
            set_timer(self._timer, _SOONEST_S)

    def _rearm(self, used: int, room: int, others: int) -> None:
        if self._of["memory"][1] == 1:
            # Twice as long when nothing has changed: a sandbox just below its limit must not keep the nursery busy.
            still = abs(self._last - used) < _MIB
            self._last = used
            soonest = max(room / _FASTEST, _SOONEST_S)
            self._delay = min(max(soonest, self._delay * 2 if still else 0), _LATEST_S)
            set_timer(self._timer, self._delay)
            return
        high = self._memory + (others + _STEP if others else 0)
        if high != self._high:
            cgroup_files.write(self._of["memory"][0], "memory.high", high)
            self._high = high
        # No event announces that files were removed: check while memory.high is raised.
        set_timer(self._timer, _SHRINK_S if high > self._memory else 0)

    def _used(self) -> int:
        name = "memory.usage_in_bytes" if self._of["memory"][1] == 1 else "memory.current"
        return int(self._read_kept("memory", name))

    def _peak(self, controller: str, name: str) -> int | None:
        try:  # memory.peak: since Linux 5.19, pids.peak: since 6.1
            return int(self._read_kept(controller, name))
        except FileNotFoundError:
            return None

    def _oom_file(self) -> str:
        return "memory.oom_control" if self._of["memory"][1] == 1 else "memory.events"

    def _count(self, files: Callable[[], int] | None) -> tuple[int, int]:
        """The bytes that count as memory, and the other bytes that are charged to the group."""
        before = files() if files else self._disk
        used = self._used()
        memory, shared = self._statistics()
        # The count after includes files that grew meanwhile; the count before included files that were removed.
        excess = max(0, shared - max(before, files() if files else 0))
        memory += excess
        self._most = max(self._most, memory)
        return memory, max(0, used - memory)

    def _statistics(self) -> tuple[int, int]:
        """Anonymous, swapped and kernel memory; shared memory (tmpfs included)."""
        text = self._read_kept("memory", "memory.stat")
        if self._of["memory"][1] == 1:
            return cgroup_files.field(text, b"total_rss") + cgroup_files.field(text, b"total_swap"), cgroup_files.field(
                text, b"total_shmem"
            )
        # Only the field `kernel` (since Linux 5.18) includes pipe buffers.
        kernel = cgroup_files.field(text, b"kernel") - cgroup_files.field(text, b"slab_reclaimable")
        if kernel < 0:
            kernel = sum(
                cgroup_files.field(text, name) for name in (b"kernel_stack", b"pagetables", b"slab_unreclaimable")
            )
        return cgroup_files.field(text, b"anon") + kernel + cgroup_files.field(text, b"sock"), cgroup_files.field(
            text, b"shmem"
        )

    # --- processor time

    def _limit_cpu(self, cpu: float) -> None:
        if "cpu" not in self._of:
            return
        quota = max(1000, int(cpu * _PERIOD_US))
        fd, version = self._of["cpu"]
        if version == 2:
            cgroup_files.write(fd, "cpu.max", f"{quota} {_PERIOD_US}")
            cgroup_files.write(fd, "cpu.weight", _SHARES * 100 // 1024, optional=True)
            return
        cgroup_files.write(fd, "cpu.cfs_period_us", _PERIOD_US)
        try:
            cgroup_files.write(fd, "cpu.cfs_quota_us", quota)
        except OSError as error:
            if error.errno != errno.EINVAL:  # more than the group above has: then that group is the limit
                raise
        cgroup_files.write(fd, "cpu.shares", _SHARES, optional=True)

    def _cpu_s(self) -> float | None:
        if "cpuacct" in self._of:
            return int(self._read_kept("cpuacct", "cpuacct.usage")) / 1e9
        for fd, version in self._directories:
            if version == 2:  # the file exists without any controller
                return cgroup_files.field(cgroup_files.read(fd, "cpu.stat"), b"usage_usec") / 1e6
        return None

    # --- files of the group

    def _write(self, controller: str, name: str, value: object) -> None:
        cgroup_files.write(self._of[controller][0], name, value)

    def _read(self, controller: str, name: str) -> bytes:
        return cgroup_files.read(self._of[controller][0], name)

    def _keep(self, controller: str, name: str) -> int:
        fd = self._kept.get((controller, name))
        if fd is None:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._of[controller][0])
            self._kept[controller, name] = fd
        return fd

    def _read_kept(self, controller: str, name: str) -> bytes:
        return os.pread(self._keep(controller, name), 16384, 0)


_SYS_clone3, _CLONE_INTO_CGROUP = 435, 0x200000000


def _fork_into(directory: int) -> int | None:
    """Fork with CLONE_INTO_CGROUP; None where that is not available (Linux before 5.7, some containers).

    It skips the C library's part of fork, which handles threads: the process must have none.
    """
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal; five unused fields; cgroup
    arguments = pack("11Q", _CLONE_INTO_CGROUP, 0, 0, 0, _SIGCHLD, *(0,) * 5, directory)
    _before_fork()
    pid = _syscall(_SYS_clone3, arguments, len(arguments))
    if pid == 0:
        _after_fork_in_child()
        return 0
    number = libc.get_errno()
    _after_fork_in_parent()
    if pid > 0:
        return pid
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EACCES):
        return None
    raise OSError(number, f"clone3: {os.strerror(number)}")


def set_timer(timer: int, delay_s: float) -> None:
    """Make a timer descriptor readable once, after `delay_s`; 0: never."""
    whole = int(delay_s)
    value = pack("4l", 0, 0, whole, int((delay_s - whole) * 1e9))
    if _timerfd_settime(timer, 0, value, None) < 0:
        raise libc.failure("timerfd_settime")
