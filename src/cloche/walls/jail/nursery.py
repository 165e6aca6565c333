"""The nursery: forks sandboxes from a process that has imported much and never runs anyone's code.

Started by launch.py inside the sandboxes' root file system, as pid 1 of a pid namespace of its own: if it dies, every
sandbox dies with it.  One thread, one loop.  The engine speaks to it on two kinds of sockets, both
trusted (so `marshal` will do, which costs no import; both ends are the same Python):

- the control socket: each message is a claim, with two descriptors: the agent's end of a byte stream, and our end of a
  *leash*;
- a leash per sandbox: we tell `failed`, `usage`, `ended`, `gone`; the engine asks for `usage`, moves the
  `deadline`, or lets go with `end`.  A leash that is closed, for whatever reason, ends its sandbox.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource
import select
import sys
import time

from cloche.agent import files, signals, watch
from cloche.agent.python import Program, note_state, offer_kernel
from cloche.walls.jail import cgroups, landlock, linux, rehearsal, root, sockets
from cloche.walls.jail.enter import find_masks
from cloche.walls.jail.seal import compile_filter
from cloche.walls.jail.wards import Claim, Newborn, Ward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL = 3
_LATER = (files, watch)  # the agent imports them when it needs them, and cannot find them then
_QUIET_S = 0.02  # without a message, before a sandbox is made ahead: making one delays whoever runs just now
_BREATH_S = 0.0015  # the same when a run has just ended: long enough for whoever waited for it to get its answer
_STRIKES = 8  # times in a row that memory is short although every program was killed: then the sandbox goes, too
_USED_GROUPS, _KEEP_GROUPS_S = 8, 0.5  # control groups kept for the next sandbox, and for how long
# Sandboxes being made at a time: more only wait for each other, in the kernel and for the processors.
_AT_ONCE, _SLOW_S = max(2, len(os.sched_getaffinity(0))), 0.5
_GIVE_UP = 3  # sandboxes in a row that could not be built: then no more are built ahead

# Parts of the standard library that programs use most, imported while there is nothing else to do.  Each megabyte makes
# every sandbox a sixth of a millisecond slower, so asyncio (26 ms, 2 MB, seldom used) is not here; nor is threading,
# nor what imports it (subprocess), which does work of its own after every fork: docs/performance.md.
_COMMON = [
    *("re", "json", "random", "datetime", "string", "typing", "heapq", "copy", "pathlib", "dataclasses", "csv"),
    *("base64", "textwrap"),
]


class Nursery:
    """The loop and what it looks after."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._configuration = configuration
        self._control = sockets.adopt(CONTROL)
        self._groups: Any = None
        if configuration.get("cgroups"):
            self._groups = cgroups.Cgroups.from_description(configuration["cgroups"])
        self._pid_namespace = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=configuration["host_proc"])
        self._environment = root.environment(configuration.get("path", ()))
        self._filter = compile_filter(configuration["without"])
        proc = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=configuration["host_proc"])
        find_masks(proc)
        os.close(proc)
        self._wards: dict[int, Ward] = {}  # by pid
        self._queue: list[Claim] = []  # for whom no sandbox is being made yet
        self._buried: list[Any] = []  # control groups that could not be removed yet
        self._used_groups: list[Any] = []  # empty ones, as good as new: in a rush, making and removing them costs
        self._default_limits = _limits_in(configuration["defaults"])
        self._last_claim = 0.0
        self._poll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._to_import = list(configuration["preload"])
        self._furnish = _furnish_sessions() if configuration.get("kernels") else None
        self._warmed = False
        self._failures = 0
        self._just_ended = False  # a good moment to make the next: whoever waited has its answer
        self._open = True
        self._wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signals.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signals.signal(signals.SIGCHLD, lambda *_: None)
        signals.signal(signals.SIGINT, signals.SIG_IGN)  # Ctrl-C is for the engine to think about
        self._watch(self._control.fileno(), self._controlled)
        self._watch(self._wake, self._signalled)

    def serve(self) -> None:
        """Work until the engine goes away, then leave nothing behind."""
        gc.freeze()
        while self._open:
            events = self._poll.poll(self._patience())
            for fd, _ in events:
                callback = self._callbacks.get(fd)
                if callback is not None:
                    callback()
            self._enforce_deadlines()
            if not events:
                self._idle()
        self._leave()

    # --- claims

    def _controlled(self) -> None:
        try:
            message, descriptors = sockets.receive(self._control, 1 << 20, 2)
        except OSError:
            message, descriptors = b"", []
        if not message:
            self._open = False
            return
        if len(descriptors) < 2:  # we are out of them: to have nobody at the other end tells the engine
            for fd in descriptors:
                os.close(fd)
            return
        request = marshal.loads(message)
        claim = Claim(request, descriptors[0], sockets.adopt(descriptors[1]))
        claim.leash.setblocking(False)
        self._queue.append(claim)
        self._serve_queue()

    def _serve_queue(self) -> None:
        """Give waiting claims a sandbox: one that is ready, or a new one, but not too many are made at a time."""
        while self._queue:
            shape = self._shape_of(self._queue[0].request)
            ward = next((w for w in self._wards.values() if w.shape == shape and w.is_free()), None)
            if ward is None and self._being_made() >= _AT_ONCE:
                return
            self._give(self._queue.pop(0), ward)

    def _being_made(self) -> int:
        # One that takes so long waits for something else than a processor, a host folder on a slow disk perhaps.
        soon = time.monotonic() - _SLOW_S
        return sum(1 for ward in self._wards.values() if not ward.ready and not ward.dead and ward.born > soon)

    def _give(self, claim: Claim, ward: Ward | None) -> None:
        request = claim.request
        if ward is None:
            try:
                ward = self._fork(request)
            except OSError as problem:
                claim.tell(failed=f"cannot start a sandbox: {problem}")
                claim.drop()
                return
        ward.claim = claim
        self._last_claim = time.monotonic()
        if request.get("deadline") is not None:
            claim.deadline = time.monotonic() + request["deadline"]
        if ward.ready:
            self._hand_over(ward)  # first: somebody waits for it
        self._watch(claim.leash.fileno(), lambda: self._leashed(ward))

    def _shape_of(self, request: dict[str, Any]) -> str:
        """What is built into a sandbox and cannot be changed when it is claimed."""
        kept = [request["disk"], request["mounts"]]
        if self._groups is None or not self._groups.limits("memory"):
            kept.append(request["memory"])
        if self._groups is None or not self._groups.limits("pids"):
            kept.append(request["processes"])
        return repr(kept)

    def _hand_over(self, ward: Ward) -> None:
        claim = ward.claim
        assert claim is not None
        self._limit(ward, claim.request)
        try:
            sockets.send(ward.parking, b"C", [claim.stream])
        except OSError:
            return  # it has died; its burial tells
        os.close(claim.stream)
        claim.stream = -1
        self._unwatch(ward.parking.fileno())
        ward.parking.close()
        if ward.group is not None and ward.group.watch_fd is not None:
            ward.group.begin()
            self._watch(ward.group.watch_fd, lambda: self._check_memory(ward))

    def _limit(self, ward: Ward, request: dict[str, Any]) -> None:
        limits = _limits_in(request)
        if ward.group is not None and ward.limits != limits:
            ward.limits = limits
            ward.group.limit(**limits)

    # --- sandboxes

    def _fork(self, request: dict[str, Any], spare: bool = False) -> Ward:
        plan = self._plan(request, spare)
        ours, theirs = sockets.pair()
        limits = _limits_in(request)
        used = self._used_groups.pop() if self._used_groups and limits == self._default_limits else None
        group = used or (self._groups.create() if self._groups is not None else None)
        linux.unshare(linux.NEWPID)  # for the next child, which is pid 1 there
        try:
            pid = group.fork() if group is not None else os.fork()
            if pid == 0:
                self._disarm()
                raise Newborn(plan, theirs)
        finally:
            if not self._born:
                linux.setns(self._pid_namespace, linux.NEWPID)
        theirs.close()
        ward = Ward(pid, ours, group, self._shape_of(request))
        ward.limits = limits if used is not None else {}
        self._wards[pid] = ward
        try:
            self._limit(ward, request)
            self._watch(ours.fileno(), lambda: self._parked(ward))
        except OSError:
            self._end(ward, "failed")  # nothing runs without its limits
            raise
        return ward

    _born = False  # True in a newborn, which was the nursery a moment ago

    def _disarm(self) -> None:
        """In the child: nothing that the nursery listens to concerns it."""
        self._born = True
        signals.set_wakeup_fd(-1)
        signals.signal(signals.SIGCHLD, signals.SIG_DFL)
        signals.signal(signals.SIGINT, signals.SIG_DFL)  # pid 1 is deaf to signals that it does not handle

    def _plan(self, request: dict[str, Any], spare: bool) -> dict[str, Any]:
        by_group = self._groups.limits if self._groups is not None else lambda _: False
        configuration = self._configuration
        return {
            "privileged": configuration["privileged"],
            "uid_base": configuration["uid_base"],
            "host_mounts": configuration["host_mounts"],
            "host_proc": configuration["host_proc"],
            "without": configuration["without"],
            "environment": self._environment,
            "landlock": landlock.abi() > 0,
            "filter": self._filter_for(request),
            "disk": request["disk"],
            "mounts": request["mounts"],
            "rlimit_memory": None if by_group("memory") else request["memory"] + self._own_memory(),
            "rlimit_processes": None if by_group("pids") else request["processes"] + 1,
            "spare": spare,
            "furnish": self._furnish,
        }

    def _filter_for(self, request: dict[str, Any]) -> bytes:
        if any(mount["writable"] for mount in request["mounts"]):
            return compile_filter(self._configuration["without"], writes_to_host=True)
        return self._filter

    def _own_memory(self) -> int:
        """What a fork has from the start, shared with us: a program's own share comes on top."""
        text = _read("self/status", self._configuration["host_proc"])
        return int(text.partition(b"VmData:")[2].split()[0]) * 1024

    def _parked(self, ward: Ward) -> None:
        try:
            message, descriptors = sockets.receive(ward.parking, 4096, 1)
        except OSError:
            message, descriptors = b"", []
        if message == b"R":
            self._failures = 0
            ward.ready = True
            if ward.claim is not None:
                self._hand_over(ward)
            self._serve_queue()
        elif message[:1].isdigit():
            host_pid, uid = message.split()
            ward.host_pid = int(host_pid)
            ward.workspace = descriptors[0]
            try:
                self._map(int(host_pid), int(uid))
                ward.parking.send(b"M")
            except OSError as problem:  # it was killed just now, and its burial follows; or else it must not go on
                ward.reason = f"no user map: {problem}"
                self._end(ward, "failed")
        else:
            self._unwatch(ward.parking.fileno())
            if message[:1] == b"!":
                self._failures += 1
                ward.reason = message[1:].decode(errors="replace")

    def _map(self, host_pid: int, uid: int) -> None:
        for kind in ("gid", "uid"):
            flags = os.O_WRONLY | os.O_CLOEXEC
            file = os.open(f"{host_pid}/{kind}_map", flags, dir_fd=self._configuration["host_proc"])
            try:
                os.write(file, b"%d %d 1" % (root.UID, uid))
            finally:
                os.close(file)

    def _leashed(self, ward: Ward) -> None:
        claim = ward.claim
        assert claim is not None
        try:
            message = claim.leash.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        request = marshal.loads(message) if message else {"end": True}
        if "usage" in request:
            claim.tell(usage=self._usage(ward))
        if "deadline" in request:
            seconds = request["deadline"]
            claim.deadline = None if seconds is None else time.monotonic() + seconds
        if "pause" in request:
            claim.tell(paused=ward.pause(request["pause"]))
        if "end" in request:
            self._unwatch(claim.leash.fileno())
            self._end(ward, ward.reason)
            self._just_ended = True

    def _check_memory(self, ward: Ward) -> None:
        def files() -> int:
            status = os.fstatvfs(ward.workspace)
            return (status.f_blocks - status.f_bfree) * status.f_frsize

        if not ward.group.check(files):
            ward.memory_strikes = 0
            return
        # The programs have to go, and the agent stays to tell about it: the sandbox has files, and a next turn.  First
        # the largest, then all but checkpoints, and these if it is they who need so much.
        ward.memory_kills += 1
        ward.memory_strikes += 1
        programs = {pid: self._size_of(pid) for pid in ward.group.processes() - {ward.pid}}
        live = {pid: size for pid, size in programs.items() if size is not None}
        spared = {ward.pid}
        if ward.memory_strikes == 1 and live:
            spared |= programs.keys() - {max(live, key=live.__getitem__)}
        elif ward.memory_strikes == 2 and live:
            spared |= programs.keys() - live.keys()
        if not ward.group.kill_all_but(spared) or ward.memory_strikes > _STRIKES:
            self._end(ward, "memory")

    def _size_of(self, pid: int) -> int | None:
        """The memory of a process; None for a frozen kernel, which goes later than others (kernels/forking.py)."""
        proc = self._configuration["host_proc"]
        try:
            process = os.pidfd_open(pid)
            try:
                told = _read(f"self/fdinfo/{process}", proc)  # the host's /proc counts otherwise than we do
            finally:
                os.close(process)
            host_pid = int(told.partition(b"Pid:")[2].split()[0])
            if _read(f"{host_pid}/oom_score_adj", proc).strip() == b"500":
                return None
            return int(_read(f"{host_pid}/statm", proc).split()[1])
        except (OSError, ValueError, IndexError):
            return 0  # it has just ended

    def _end(self, ward: Ward, reason: str) -> None:
        """Tell what it used, and kill it."""
        if ward.claim is not None and not ward.claim.told_end:
            ward.claim.told_end = True
            ward.claim.tell(ended={"reason": reason, **self._usage(ward)})
        ward.reason = ward.reason or reason or "ended"
        if not ward.dead:
            os.kill(ward.pid, signals.SIGKILL)  # pid 1 of its namespace: all that is in it dies with it

    def _usage(self, ward: Ward) -> dict[str, Any]:
        usage: dict[str, Any] = {"host_pid": ward.host_pid}
        if ward.group is not None:
            usage.update(ward.group.usage())
            usage["oom_kills"] = (usage["oom_kills"] or 0) + ward.memory_kills
        return usage

    # --- death

    def _signalled(self) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ward = self._wards.pop(pid, None)
            if ward is not None:
                self._bury(ward, status)
        self._remove_groups()
        self._serve_queue()

    def _bury(self, ward: Ward, status: int) -> None:
        ward.dead = True
        claim = ward.claim
        if claim is not None:
            if not ward.ready:
                claim.tell(failed=ward.reason or f"the sandbox ended while it was made ({status})")
            elif not claim.told_end:
                claim.told_end = True
                claim.tell(ended={"reason": ward.reason, "status": status, **self._usage(ward)})
            claim.tell(gone=True)
            self._unwatch(claim.leash.fileno())
            claim.drop()
        self._unwatch(ward.parking.fileno())
        ward.parking.close()
        if ward.workspace >= 0:
            os.close(ward.workspace)
        if ward.group is not None:
            if ward.group.watch_fd is not None:
                self._unwatch(ward.group.watch_fd)
            again = ward.limits == self._default_limits and len(self._used_groups) < _USED_GROUPS
            (self._used_groups if again and ward.group.renew() else self._buried).append(ward.group)

    def _remove_groups(self) -> None:
        self._buried = [group for group in self._buried if not group.remove()]

    def _next_deadline(self) -> float | None:
        due = [w.claim.deadline for w in self._wards.values() if w.claim is not None and w.claim.deadline is not None]
        waits = [min(due) - time.monotonic()] if due else []
        if self._buried:
            waits.append(0.05)  # an empty group may stay busy for a moment: nothing tells when it is not
        if self._used_groups:
            waits.append(_KEEP_GROUPS_S)
        if self._queue:
            waits.append(_SLOW_S)
        return max(0.0, min(waits)) if waits else None

    def _enforce_deadlines(self) -> None:
        now = time.monotonic()
        for ward in self._wards.values():
            if ward.claim is not None and ward.claim.deadline is not None and ward.claim.deadline <= now:
                ward.claim.deadline = None
                self._end(ward, "timeout")
        if self._buried:
            self._remove_groups()
        if self._queue:
            self._serve_queue()

    def _leave(self) -> None:
        for ward in self._wards.values():
            self._end(ward, "closed")
        for pid in list(self._wards):
            os.waitpid(pid, 0)
            group = self._wards.pop(pid).group
            if group is not None:
                self._buried.append(group)
        self._buried += self._used_groups
        deadline = time.monotonic() + 1.5
        while self._buried and time.monotonic() < deadline:
            self._remove_groups()
            if self._buried:
                time.sleep(0.002)  # what is left the keeper removes

    # --- what is done while nothing is asked

    def _patience(self) -> float | None:
        """How long to wait for something to happen before doing what can be done meanwhile."""
        if not self._warmed:
            return _SLOW_S if self._being_made() else 0  # whoever waits for a sandbox comes before what is imported
        due = self._next_deadline()
        if not self._wants_more():
            self._just_ended = False
            return due
        quiet = _BREATH_S if self._just_ended else _QUIET_S
        return quiet if due is None else min(due, quiet)

    def _wants_more(self) -> bool:
        if not self._configuration["pool"] or self._failures >= _GIVE_UP:
            return False
        waiting = sum(1 for ward in self._wards.values() if ward.is_free())
        return waiting < int(self._configuration["pool"])

    def _idle(self) -> None:
        if not self._warmed:
            if self._being_made():
                return
            if self._to_import:
                _import_quietly(self._to_import.pop(0))
            else:
                self._warm()
        elif self._wants_more():
            try:
                self._fork(self._configuration["defaults"], spare=True)
            except OSError:
                self._failures += 1
        elif self._used_groups and time.monotonic() - self._last_claim > _KEEP_GROUPS_S:
            self._buried += self._used_groups
            self._used_groups = []

    def _warm(self) -> None:
        """All is imported: make it cheap to fork, and tell."""
        self._warmed = True
        if not self._configuration["preload"]:
            return  # there will be one sandbox only
        if self._configuration["rehearse"]:
            rehearsal.rehearse()
            if self._configuration["warm_kernel"]:
                rehearsal.rehearse_kernel()
            linux.umount("/tmp")
        note_state()
        gc.collect()
        gc.freeze()  # what is here now is for ever: the collector need not touch it, so it stays shared after a fork
        self._control.send(marshal.dumps({"warm": True}))

    # --- the loop's tools

    def _watch(self, fd: int, callback: Callable[[], None]) -> None:
        self._callbacks[fd] = callback
        self._poll.register(fd, select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR)

    def _unwatch(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)


def _read(path: str, folder: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(file, 8192)
    finally:
        os.close(file)


def _limits_in(request: dict[str, Any]) -> dict[str, Any]:
    limits = {name: request[name] for name in ("memory", "disk", "cpu", "processes")}
    limits["processes"] += 1  # the agent does not count
    return limits


def _furnish_sessions() -> Callable[[Any, int], None]:
    """Have all at hand that sessions need; imported only where there can be some."""
    from cloche.agent import sessions
    from cloche.kernels import bash, java, r
    from cloche.kernels import python as ipython

    offer_kernel("python", ipython.main)
    offer_kernel("bash", bash.main)
    offer_kernel("r", r.main)
    offer_kernel("java", java.main)
    return sessions.furnish


def _import_quietly(name: str) -> None:
    try:
        __import__(name)
    except Exception:
        pass  # a program that needs it will see why


def _receive_configuration(source: sockets.Socket) -> dict[str, Any]:
    message, descriptors = sockets.receive(source, 64 << 10, 16)
    source.close()
    if not message:
        os._exit(1)  # the keeper has failed, and told why
    configuration: dict[str, Any] = marshal.loads(message)
    configuration["host_mounts"], configuration["host_proc"], *places = descriptors
    for place, fd in zip(configuration.get("cgroups", {"places": ()})["places"], places, strict=True):
        place[0] = fd  # the same directory under another number
    return configuration


def main(source: int) -> None:
    """Entered by exec, inside the sandboxes' root; `source` is a socket from which the configuration comes."""
    configuration = _receive_configuration(sockets.adopt(source))
    sys.argv[:] = ["python3"]
    gc.disable()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # a dozen for each sandbox: the usual 1024 are soon used up
    linux.last_capability()  # known once, for every sandbox
    if configuration["rehearse"]:  # some libraries want to write while they are imported
        linux.mount("nursery", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=16m")
        root.furnish_tmp()
    if configuration["preload"] == "common":
        configuration["preload"] = list(_COMMON)
    # Each of these ends by raising the next: so a program runs at the bottom of the stack, not on top of ours.
    newborn: Newborn | None = None
    program: Program | None = None
    try:
        nursery = Nursery(configuration)  # held on to: a fork has better things to do than to take it apart
        linux.umount(root.LIBRARY + "/cloche")  # all of ours is imported; nobody in here shall find it
        sys.path.remove(root.LIBRARY)
        note_state()
        nursery.serve()
    except Newborn as child:
        newborn = child
    if newborn is not None:
        try:
            newborn.live()
        except Program as child_:
            program = child_
    if program is not None:
        program.become()
    os._exit(0)
