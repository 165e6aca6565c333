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
from cloche.agent.python import Program, keep_out, note_state, offer_kernel
from cloche.walls import sockets
from cloche.walls.jail import cgroups, linux, memory_shortage, networks, plan, recycling, rehearsal, root, seccomp
from cloche.walls.jail.enter import find_masks
from cloche.walls.jail.pool import Pool, started
from cloche.walls.jail.recycling import Leftovers
from cloche.walls.jail.sandbox_process import Claim, Newborn, Ward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL = 3
_LATER = (files, watch)  # the agent imports them when it needs them, and cannot find them then
_QUIET_S = 0.02  # without a message, before a sandbox is made ahead: making one delays whoever runs just now
_RUSH_S = 0.02  # between two claims: then what is made ahead is soon used, and only that is done which has to be
_BREATH_S = 0.0015  # the same when a run has just ended: long enough for whoever waited for it to get its answer
_LOOK_S = 0.005  # between two looks at what sandboxes use, while something else takes long
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
        find_masks(configuration["proc"])
        self._wards: dict[int, Ward] = {}  # by pid
        self._queue: list[Claim] = []  # for whom no sandbox is being made yet
        self._patient: list[Claim] = []  # that can wait until there is nothing else to do
        self._doomed: list[Ward] = []  # to be killed in the next turn of the loop
        self._unused_network = b""  # what is to be seen in a network namespace that nobody has used
        self._leftovers = Leftovers(plan.limits(configuration["defaults"]))
        self._pool = Pool(int(configuration["pool"] or 0))
        self._last_claim = 0.0
        self._rush = False  # claims come one upon the other
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
            doomed, self._doomed = self._doomed, []
            for fd, _ in events:
                callback = self._callbacks.get(fd)
                if callback is not None:
                    callback()
            for ward in doomed:
                self._kill(ward)
            self._enforce_deadlines()
            if not events:
                self._idle()
        self._leave()

    # --- claims

    def _controlled(self) -> None:
        try:
            message, descriptors = sockets.receive(self._control, sockets.MAX_CLAIM, 2)
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
        if request.get("patient"):
            self._patient.append(claim)
            self._watch(claim.leash.fileno(), lambda: self._called(claim))
            return
        self._queue.append(claim)
        self._serve_queue()

    def _called(self, claim: Claim) -> None:
        """Somebody wants what it claimed patiently, and has not got yet; or nobody ever will."""
        self._patient.remove(claim)
        self._unwatch(claim.leash.fileno())
        try:
            message = claim.leash.recv(4096, sockets.DONTWAIT)
        except OSError:
            message = b""
        if not message:
            claim.drop()
            return
        claim.request.update(deadline=marshal.loads(message)["begin"], patient=False)
        self._queue.append(claim)
        self._serve_queue()

    def _served_patiently(self) -> tuple[Claim, Ward] | None:
        """A claim that can wait, and a sandbox that is ready and just right for it."""
        ready = {ward.ahead: ward for ward in self._wards.values() if ward.ready and ward.is_free()}
        for claim in self._patient if ready else ():
            ward = ready.get(claim.command)
            if ward is not None and ward.shape == plan.shape(self._groups, claim.request):
                return claim, ward
        return None

    def _serve_patiently(self, claim: Claim, ward: Ward) -> None:
        self._patient.remove(claim)
        self._unwatch(claim.leash.fileno())
        ward.claim = claim
        self._hand_over(ward)
        self._watch(claim.leash.fileno(), lambda: self._leashed(ward))

    def _serve_queue(self) -> None:
        """Give waiting claims a sandbox: one that is ready, or a new one, but not too many are made at a time."""
        while self._queue:
            request = self._queue[0].request
            ward = self._pool.choose(self._wards.values(), plan.shape(self._groups, request), request["ahead"])
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
        if ward.ready:
            self._hand_over(ward)  # first: somebody waits for it
        self._note(claim, request["deadline"])
        self._watch(claim.leash.fileno(), lambda: self._leashed(ward))

    def _note(self, claim: Claim, deadline: float | None) -> None:
        """Somebody wants it now."""
        now = time.monotonic()
        self._rush = now - self._last_claim < _RUSH_S
        self._last_claim = now
        claim.deadline = None if deadline is None else now + deadline
        self._pool.note(claim.request["ahead"])

    def _begin(self, ward: Ward) -> None:
        """What it uses counts from now on."""
        ward.begun = True
        if ward.group is not None:
            ward.group.begin()
            if ward.group.watch_fd is not None:
                self._watch(ward.group.watch_fd, lambda: self._look_at_memory(ward))

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
        if not claim.request.get("patient"):
            self._begin(ward)

    def _limit(self, ward: Ward, request: dict[str, Any]) -> None:
        limits = plan.limits(request)
        if ward.group is not None and ward.limits != limits:
            ward.limits = limits
            ward.group.limit(**limits)

    # --- sandboxes

    def _fork(self, request: dict[str, Any], spare: bool = False, ahead: dict[str, Any] | None = None) -> Ward:
        network = self._leftovers.network()
        steps = plan.plan(self._configuration, self._groups, request) | {
            "spare": spare,
            "ahead": started(ahead),
            "rehearse": not self._rush,
            "network": network,
            "unused": self._unused_network,
            "furnish": self._furnish,
        }
        ours, theirs = sockets.pair()
        limits = plan.limits(request)
        used = self._leftovers.group(limits)
        group = used or (self._groups.create() if self._groups is not None else None)
        linux.unshare(linux.NEWPID)  # for the next child, which is pid 1 there
        try:
            pid = group.fork() if group is not None else os.fork()
            if pid == 0:
                self._disarm()
                raise Newborn(steps, theirs)
        finally:
            if not self._born:
                linux.setns(self._pid_namespace, linux.NEWPID)
                if network is not None:
                    os.close(network)
        theirs.close()
        ward = Ward(pid, ours, group, plan.shape(self._groups, request))
        ward.limits = limits if used is not None else {}
        ward.ahead = "" if ahead is None else repr(ahead)
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
            else:
                self._usage(ward)  # the files are open then, and whoever asks at the end waits less
            self._serve_queue()
        elif message[:1].isdigit():
            host_pid, uid = message.split()
            ward.host_pid = int(host_pid)
            ward.workspace = descriptors[0]
            try:
                plan.map_users(int(host_pid), int(uid), self._configuration["host_proc"])
                self._note_network(ward)
                ward.parking.send(b"M")
            except OSError as problem:  # it was killed just now, and its burial follows; or else it must not go on
                ward.reason = f"no user map: {problem}"
                self._end(ward, "failed")
        else:
            self._unwatch(ward.parking.fileno())
            if message[:1] == b"!":
                self._failures += 1
                ward.reason = message[1:].decode(errors="replace")

    def _note_network(self, ward: Ward) -> None:
        if "network" not in self._configuration["without"]:
            proc = self._configuration["host_proc"]
            ward.network = os.open(f"{ward.host_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
            if not self._unused_network:  # the first: nobody can have used it
                self._unused_network = networks.state(f"{ward.host_pid}/net", proc)

    def _leashed(self, ward: Ward) -> None:
        claim = ward.claim
        assert claim is not None
        try:
            message = claim.leash.recv(4096, sockets.DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        request = marshal.loads(message) if message else {"end": True}
        if "begin" in request:
            self._note(claim, request["begin"])
            self._begin(ward)
        if "usage" in request:
            claim.tell(usage=self._usage(ward))
        if "deadline" in request:
            seconds = request["deadline"]
            claim.deadline = None if seconds is None else time.monotonic() + seconds
        if "pause" in request:
            claim.tell(paused=ward.pause(request["pause"]))
        if "end" in request:
            self._unwatch(claim.leash.fileno())
            self._tell_end(ward, ward.reason)
            self._doomed.append(ward)  # a moment later: to die takes a processor, and somebody waits for the answer
            self._just_ended = True

    def _look_at_memory(self, ward: Ward) -> None:
        if not memory_shortage.relieve(ward, self._configuration["host_proc"]):
            self._end(ward, "memory")

    def _end(self, ward: Ward, reason: str) -> None:
        """Tell what it used, and kill it."""
        self._tell_end(ward, reason)
        self._kill(ward)

    def _tell_end(self, ward: Ward, reason: str) -> None:
        if ward.claim is not None and not ward.claim.told_end:
            ward.claim.told_end = True
            ward.claim.tell(ended={"reason": reason, **self._usage(ward)})
        ward.reason = ward.reason or reason or "ended"

    def _kill(self, ward: Ward) -> None:
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
        self._leftovers.remove()
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
        if ward.group is not None and ward.group.watch_fd is not None:
            self._unwatch(ward.group.watch_fd)
        self._leftovers.take(ward)

    def _next_deadline(self) -> float | None:
        due = [w.claim.deadline for w in self._wards.values() if w.claim is not None and w.claim.deadline is not None]
        waits = [min(due) - time.monotonic()] if due else []
        if (look := self._leftovers.next_look()) is not None:
            waits.append(look)
        if self._queue:
            waits.append(_SLOW_S)
        if (look := self._pool.next_look()) is not None:
            waits.append(look)
        return max(0.0, min(waits)) if waits else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for ward in self._wards.values():
            if ward.claim is not None and ward.claim.deadline is not None and ward.claim.deadline <= now:
                ward.claim.deadline = None
                self._end(ward, "timeout")

    def _enforce_deadlines(self) -> None:
        self._end_overdue()
        self._leftovers.remove()
        if self._queue:
            self._serve_queue()

    def _leave(self) -> None:
        for ward in self._wards.values():
            self._end(ward, "closed")
        for pid in list(self._wards):
            os.waitpid(pid, 0)
            self._leftovers.take(self._wards.pop(pid))
        self._leftovers.leave()

    # --- what is done while nothing is asked

    def _patience(self) -> float | None:
        """How long to wait for something to happen before doing what can be done meanwhile."""
        if self._doomed:
            return _BREATH_S
        if not self._warmed:
            return _SLOW_S if self._being_made() else 0  # whoever waits for a sandbox comes before what is imported
        due = self._next_deadline()
        if not self._lacks()[0] and self._served_patiently() is None:
            self._just_ended = False
            return due
        quiet = _BREATH_S if self._just_ended else _QUIET_S
        return quiet if due is None else min(due, quiet)

    def _lacks(self) -> tuple[bool, dict[str, Any] | None]:
        return self._pool.lacks(self._wards.values()) if self._failures < _GIVE_UP else (False, None)

    def _idle(self) -> None:
        if not self._warmed:
            if self._being_made():
                return
            if self._to_import:
                self._while_limits_hold(_import_quietly, self._to_import.pop(0))
            else:
                self._warm()
            return
        served = self._served_patiently()
        if served is not None:
            self._serve_patiently(*served)
            return
        lacks, ahead = self._lacks()
        if lacks:
            try:
                self._fork(self._configuration["defaults"], spare=True, ahead=ahead)
            except OSError:
                self._failures += 1
            return
        for ward in self._pool.outdated(self._wards.values()):
            self._end(ward, "")
        if time.monotonic() - self._last_claim > recycling.KEEP_S:
            self._leftovers.give_up()

    def _warm(self) -> None:
        """All is imported: make it cheap to fork, and tell."""
        self._warmed = True
        if not self._configuration["preload"]:
            return  # there will be one sandbox only
        seccomp.place(self._configuration["filters"][False])
        root.font_lists()
        if self._configuration["rehearse"]:
            self._while_limits_hold(rehearsal.rehearse)
            if self._configuration["warm_kernel"]:
                self._while_limits_hold(rehearsal.rehearse_kernel)
            linux.umount("/tmp")
        note_state()
        gc.collect()
        gc.freeze()  # what is here now is for ever: the collector need not touch it, so it stays shared after a fork
        self._control.send(marshal.dumps({"warm": True}))

    def _while_limits_hold(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something that takes long; sandboxes that are used already are looked after in between."""
        signals.signal(signals.SIGALRM, lambda *_: self._look_after_wards())
        signals.setitimer(signals.ITIMER_REAL, _LOOK_S, _LOOK_S)
        try:
            work(*arguments)
        finally:
            signals.setitimer(signals.ITIMER_REAL, 0)
            signals.signal(signals.SIGALRM, signals.SIG_DFL)

    def _look_after_wards(self) -> None:
        for ward in list(self._wards.values()):
            if ward.begun and not ward.dead and ward.group is not None and ward.group.watch_fd is not None:
                self._look_at_memory(ward)
        self._end_overdue()

    # --- the loop's tools

    def _watch(self, fd: int, callback: Callable[[], None]) -> None:
        self._callbacks[fd] = callback
        self._poll.register(fd, select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR)

    def _unwatch(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)


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
    configuration["environment"] = root.environment(configuration.get("path", ()))
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
        keep_out()
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
