"""The nursery: forks sandboxes from a process that has imported many libraries and never runs anyone's code.

nursery_main.py starts it inside the sandboxes' root file system, as pid 1 of a pid namespace of its own: if it dies,
every sandbox dies with it.  It has one thread and one loop.  The engine speaks to it on two kinds of sockets, both of
which are trusted:

- the control socket carries claims (claim.py);
- a leash for each sandbox, whose warden the nursery is (walls/leash_messages.py).
"""

from __future__ import annotations

import gc
import marshal
import os
import time

from cloche.agent import signals
from cloche.walls import sockets
from cloche.walls.jail import cgroups, linux, memory_shortage, networks, plan, recycling, shown_limits
from cloche.walls.jail.claim import MAX_CLAIM, RETIRE, Claim
from cloche.walls.jail.descriptors import DescriptorBudget
from cloche.walls.jail.enter import look_around
from cloche.walls.jail.layer_mounts import LayerMounts
from cloche.walls.jail.listeners import Listeners
from cloche.walls.jail.newborn import Newborn
from cloche.walls.jail.pool import Pool, as_started
from cloche.walls.jail.recycling import Recycler
from cloche.walls.jail.retirement import Retirement
from cloche.walls.jail.sandbox_process import SandboxProcess
from cloche.walls.jail.warm_up import WarmUp
from cloche.walls.jail.watches import Watches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.walls.jail.claim import CommandData, OrderData

CONTROL = 3
_QUIET_S = 0.02  # without a message, before a sandbox is made ahead: making one delays the programs that run just now
_RUSH_S = 0.02  # between two claims: then a sandbox made ahead is soon used, and only the necessary steps are taken
_BREATH_S = 0.0015  # the same when a run has just ended: long enough for its caller to get the answer
# Sandboxes being made at a time: more only wait for each other, in the kernel and for the processors.
_AT_ONCE, _SLOW_S = max(2, len(os.sched_getaffinity(0))), 0.5
_GIVE_UP = 3  # sandboxes in a row that could not be built: then no more are built ahead


class Nursery:
    """The loop, the sandboxes in its care and the claims on them."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._configuration = configuration
        self._control = sockets.adopt(CONTROL)
        self._groups, self._kind_of_group = cgroups.of_configuration(configuration)
        self._pid_namespace = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=configuration["host_proc"])
        look_around(configuration["proc"])
        self._sandboxes: dict[int, SandboxProcess] = {}  # by pid
        self._queue: list[Claim] = []  # claims for which no sandbox is being made yet
        self._standing: list[Claim] = []  # claims that can wait until there is nothing else to do
        self._doomed: list[SandboxProcess] = []  # to be killed in the next turn of the loop
        self._unused_network = b""  # the state of a network namespace that nobody has used
        self._recycler = Recycler(plan.group_limits(configuration["usual_order"]))
        self._budget = DescriptorBudget()
        self._listeners = Listeners(self._disarm)
        read_only = "layers" not in configuration["without"]
        self._layers = LayerMounts(self._disarm, configuration["host_mounts"], configuration["host_proc"], read_only)
        self._pool = Pool(int(configuration["pool"] or 0))
        self._rush = False  # claims come one right after the other
        self._watches = Watches()
        self._warm_up = WarmUp(configuration)
        self._failures = 0
        self._just_ended = False  # a run has: a good moment to make the next sandbox, since nobody waits for an answer
        self._open = True
        self._retirement = Retirement(configuration.get("idle_s"))
        self._last_claim = self._retirement.first_use()
        self._wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signals.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signals.signal(signals.SIGCHLD, lambda *_: None)
        signals.signal(signals.SIGINT, signals.SIG_IGN)  # Ctrl-C is the engine's business
        self._watches.add(self._control.fileno(), self._controlled)
        self._watches.add(self._wake, self._signalled)

    def serve(self) -> None:
        """Work until the engine goes away, then clean up."""
        gc.freeze()
        while self._open:
            events = self._watches.wait(self._patience())
            doomed, self._doomed = self._doomed, []
            for fd in events:
                self._watches.call(fd)
            for sandbox in doomed:
                sandbox.kill()
            self._enforce_deadlines()
            if not events:
                self._idle()
            if self._retirement.can_come and not self._is_in_use():
                self._retire()
        self._leave()

    # --- claims

    def _controlled(self) -> None:
        try:
            message, descriptors = sockets.receive(self._control, MAX_CLAIM, 3)
        except OSError:
            message, descriptors = b"", []
        if not message or message == RETIRE:
            self._open, self._retirement.begun = bool(message), True
            return
        order: OrderData = marshal.loads(message)
        needed = 3 if order["mounts"] else 2
        if len(descriptors) < needed or not self._budget.has_room_for_claim(self._queue, self._standing):
            for fd in descriptors:  # too few are left; the engine notices that its ends are closed
                os.close(fd)
            return
        stream, leash, *mounts = descriptors
        claim = Claim(order, stream, sockets.adopt(leash), *mounts)
        if order["standing"]:
            self._standing.append(claim)
            self._watches.add(claim.leash.fileno(), lambda: self._called_in(claim))
            return
        self._queue.append(claim)
        self._serve_queue()

    def _retire(self) -> None:
        if self._retirement.begun:
            self._open = False
        elif self._retirement.is_due(self._last_claim):
            self._watches.remove(self._control.fileno())
            self._retirement.begin(self._control)
            self._controlled()  # a claim may have come just before; otherwise this ends the loop

    def _is_in_use(self) -> bool:
        return bool(self._queue) or any(each.claim is not None for each in self._sandboxes.values())

    def _called_in(self, claim: Claim) -> None:
        """The engine wants the sandbox of a standing claim that has none yet; or it has closed the leash."""
        self._standing.remove(claim)
        self._watches.remove(claim.leash.fileno())
        request, _ = claim.receive()
        if "begin" not in request:
            claim.drop()
            return
        claim.order["lifetime_s"] = request["begin"]
        claim.order["standing"] = False
        self._queue.append(claim)
        self._serve_queue()

    def _match_standing_claim(self) -> tuple[Claim, SandboxProcess] | None:
        """A standing claim, and a sandbox that is ready and has the right shape for it."""
        ready = {each.first_command: each for each in self._sandboxes.values() if each.ready and each.is_free()}
        for claim in self._standing if ready else ():
            sandbox = ready.get(claim.first_command)
            if sandbox is not None and sandbox.shape == plan.shape(self._groups, claim.order):
                return claim, sandbox
        return None

    def _serve_standing_claim(self, claim: Claim, sandbox: SandboxProcess) -> None:
        self._standing.remove(claim)
        self._watches.remove(claim.leash.fileno())
        sandbox.claim = claim
        self._hand_over(sandbox)
        self._watches.add(claim.leash.fileno(), lambda: self._leashed(sandbox))

    def _serve_queue(self) -> None:
        """Give waiting claims a sandbox: one that is ready, or a new one as long as not too many are being made."""
        while self._queue:
            order = self._queue[0].order
            shape = plan.shape(self._groups, order)
            sandbox = self._pool.choose(self._sandboxes.values(), shape, order["first_command"])
            if sandbox is None and self._being_made() >= _AT_ONCE:
                return
            self._give(self._queue.pop(0), sandbox)

    def _being_made(self) -> int:
        # A sandbox that takes longer waits for something else than a processor, perhaps for a folder on a slow disk.
        soon = time.monotonic() - _SLOW_S
        return sum(1 for each in self._sandboxes.values() if not each.ready and not each.dead and each.born > soon)

    def _give(self, claim: Claim, sandbox: SandboxProcess | None) -> None:
        if sandbox is None:
            try:
                sandbox = self._fork(claim.order, mounts=claim.mounts)
            except OSError as problem:
                claim.tell(failed=f"cannot start a sandbox: {problem}")
                claim.drop()
                return
        claim.close_mounts()
        sandbox.claim = claim
        if sandbox.ready:
            self._hand_over(sandbox)  # first: the caller waits for it
        self._note_use(claim, claim.order["lifetime_s"])
        self._watches.add(claim.leash.fileno(), lambda: self._leashed(sandbox))

    def _note_use(self, claim: Claim, lifetime_s: float | None) -> None:
        """The engine wants the sandbox of this claim now: its lifetime begins."""
        now = time.monotonic()
        self._rush = now - self._last_claim < _RUSH_S
        self._last_claim = now
        claim.deadline = None if lifetime_s is None else now + lifetime_s
        self._pool.note(claim.order["first_command"])

    def _begin(self, sandbox: SandboxProcess) -> None:
        """Watch the memory of the sandbox from now on."""
        sandbox.begun = True
        if sandbox.group is not None:
            sandbox.group.begin()
            if sandbox.group.watch_fd is not None:
                self._watches.add(sandbox.group.watch_fd, lambda: self._look_at_memory(sandbox))

    def _hand_over(self, sandbox: SandboxProcess) -> None:
        claim = sandbox.claim
        assert claim is not None
        self._limit(sandbox, claim.order)
        if sandbox.group is not None:
            sandbox.group.begin_account()
        try:
            message = b"C%d %d" % (shown_limits.cpus(claim.order), claim.order["memory"])
            sockets.send(sandbox.parking, message, [claim.stream])
        except OSError:
            return  # the sandbox has died; `_bury` tells the engine
        os.close(claim.stream)
        claim.stream = -1
        self._watches.remove(sandbox.parking.fileno())
        sandbox.parking.close()
        if not claim.order["standing"]:
            self._begin(sandbox)

    def _limit(self, sandbox: SandboxProcess, order: OrderData) -> None:
        limits = plan.group_limits(order)
        if sandbox.group is not None and sandbox.limits != limits:
            sandbox.limits = limits
            sandbox.group.limit(**limits)

    # --- sandboxes

    def _fork(
        self, order: OrderData, mounts: int = -1, spare: bool = False, first_command: CommandData | None = None
    ) -> SandboxProcess:
        self._budget.check(self._sandboxes, spare)
        network = self._recycler.network()
        steps = plan.plan(
            self._configuration,
            self._groups,
            order,
            mounts=mounts,
            network=network,
            unused_network=self._unused_network,
            spare=spare,
            first_command=as_started(first_command),
            rehearse=not self._rush,
            furnish=self._warm_up.furnish,
            prepare=self._configuration.get("prepare"),
        )
        ours, theirs = sockets.pair()
        limits = plan.group_limits(order)
        used = self._recycler.group(limits)
        group = used or (self._groups.create(self._kind_of_group) if self._groups is not None else None)
        linux.unshare(linux.NEWPID)  # for the next child, which becomes pid 1 of the new namespace
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
        sandbox = SandboxProcess(pid, ours, group, plan.shape(self._groups, order))
        sandbox.limits = limits if used is not None else None
        sandbox.first_command = "" if first_command is None else repr(first_command)
        self._sandboxes[pid] = sandbox
        try:
            self._limit(sandbox, order)
            self._watches.add(ours.fileno(), lambda: self._parked(sandbox))
        except OSError:
            self._end(sandbox, "failed")  # nothing runs without its limits
            raise
        return sandbox

    _born = False  # True in a newborn, which was the nursery a moment ago

    def _disarm(self) -> None:
        """In the child: do not react to the nursery's signals."""
        self._born = True
        signals.set_wakeup_fd(-1)
        signals.signal(signals.SIGCHLD, signals.SIG_DFL)
        signals.signal(signals.SIGINT, signals.SIG_DFL)  # pid 1 ignores signals that it does not handle

    def _parked(self, sandbox: SandboxProcess) -> None:
        """Read a message of a sandbox that nobody uses yet: it wants its user map, is ready, or has failed."""
        try:
            message, descriptors = sockets.receive(sandbox.parking, 4096, 1)
        except OSError:
            message, descriptors = b"", []
        if message == b"R":
            self._failures = 0
            sandbox.become_ready(self._configuration["host_proc"])
            if sandbox.claim is not None:
                self._hand_over(sandbox)
            else:
                sandbox.usage()  # opens the control group's files, so that the answer at the end is quicker
            self._serve_queue()
        elif message[:1].isdigit():
            host_pid, uid = message.split()
            sandbox.note_host_pid(int(host_pid))
            try:
                sandbox.workspace = descriptors[0]
                owner, proc = self._configuration["root_uid"], self._configuration["host_proc"]
                plan.map_users(int(host_pid), int(uid), owner, proc)
                self._note_network(sandbox)
                self._listeners.namespace_known(sandbox)
                self._layers.root_known(sandbox)
                sandbox.parking.send(b"M")
            except (OSError, IndexError) as problem:  # it was killed, and `_bury` follows; or it must not go on
                sandbox.reason = f"no user map: {problem}"
                self._end(sandbox, "failed")
        else:
            self._watches.remove(sandbox.parking.fileno())
            self._failures += sandbox.note_failure(message)

    def _note_network(self, sandbox: SandboxProcess) -> None:
        if "network" not in self._configuration["without"]:
            sandbox.note_network(self._configuration["host_proc"])
            if not self._unused_network:  # this is the first one: nobody can have used it
                self._unused_network = networks.state(f"{sandbox.host_pid}/net", self._configuration["host_proc"])

    def _leashed(self, sandbox: SandboxProcess) -> None:
        """Read a request of the engine from a sandbox's leash (walls/leash_messages.py) and answer it."""
        claim = sandbox.claim
        assert claim is not None
        request, descriptors = claim.receive()
        if "listen" in request:
            self._listeners.open(sandbox, request["listen"], *descriptors)
        if "layer" in request:
            self._layers.mount(sandbox, *descriptors)
        if "begin" in request:
            self._note_use(claim, request["begin"])
            self._begin(sandbox)
        if "usage" in request:
            claim.tell(usage=sandbox.usage())
        if "lifetime_s" in request:
            seconds = request["lifetime_s"]
            claim.deadline = None if seconds is None else time.monotonic() + seconds
        if "pause" in request:
            claim.tell(**sandbox.pause(request["pause"]))
        if "end" in request:
            self._watches.remove(claim.leash.fileno())
            self._tell_end(sandbox, sandbox.reason)
            self._doomed.append(sandbox)  # killed a moment later: that takes a processor, and a caller waits
            self._just_ended = True

    def _look_at_memory(self, sandbox: SandboxProcess) -> None:
        if not memory_shortage.relieve(sandbox, self._configuration["host_proc"]):
            self._end(sandbox, "memory")

    def _end(self, sandbox: SandboxProcess, reason: str) -> None:
        """Tell the engine what the sandbox used, and kill it."""
        self._tell_end(sandbox, reason)
        sandbox.kill()

    def _tell_end(self, sandbox: SandboxProcess, reason: str) -> None:
        if sandbox.claim is not None and not sandbox.claim.told_end:
            sandbox.claim.told_end = True
            sandbox.claim.tell(ended={"reason": reason, **sandbox.usage()})
        sandbox.reason = sandbox.reason or reason or "ended"

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
            sandbox = self._sandboxes.pop(pid, None)
            if sandbox is not None:
                self._bury(sandbox, status)
        self._recycler.remove()
        self._serve_queue()

    def _bury(self, sandbox: SandboxProcess, status: int) -> None:
        sandbox.dead = True
        claim = sandbox.claim
        if claim is not None:
            if not sandbox.ready:
                self._failures += sandbox.note_unread_failure()
                claim.tell(failed=sandbox.reason or f"the sandbox ended while it was made ({status})")
            elif not claim.told_end:
                claim.told_end = True
                claim.tell(ended={"reason": sandbox.reason, "status": status, **sandbox.usage()})
            claim.tell(gone=True)
            self._watches.remove(claim.leash.fileno())
            claim.drop()
        self._listeners.forget(sandbox)
        self._layers.forget(sandbox)
        self._watches.remove(sandbox.parking.fileno())
        sandbox.parking.close()
        if sandbox.workspace >= 0:
            os.close(sandbox.workspace)
        if sandbox.group is not None and sandbox.group.watch_fd is not None:
            self._watches.remove(sandbox.group.watch_fd)
        self._recycler.take(sandbox)

    def _next_deadline(self) -> float | None:
        claims = [each.claim for each in self._sandboxes.values() if each.claim is not None]
        due = [claim.deadline for claim in claims if claim.deadline is not None]
        looks = [self._recycler.next_look(), self._pool.next_look(), self._warm_up.later_in_s(self._last_claim)]
        looks.append(None if self._is_in_use() else self._retirement.wait_s(self._last_claim))
        waits = [look for look in looks if look is not None]
        if due:
            waits.append(min(due) - time.monotonic())
        if self._queue:
            waits.append(_SLOW_S)
        return max(0.0, min(waits)) if waits else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for sandbox in self._sandboxes.values():
            claim = sandbox.claim
            if claim is not None and claim.deadline is not None and claim.deadline <= now:
                claim.deadline = None
                self._end(sandbox, "timeout")

    def _enforce_deadlines(self) -> None:
        self._end_overdue()
        self._recycler.remove()
        if self._queue:
            self._serve_queue()

    def _leave(self) -> None:
        for sandbox in self._sandboxes.values():
            self._end(sandbox, "closed")
        for pid in list(self._sandboxes):
            os.waitpid(pid, 0)
            self._recycler.take(self._sandboxes.pop(pid))
        self._recycler.leave()

    # --- work for quiet moments

    def _patience(self) -> float | None:
        """How long to wait for an event before `_idle` is called."""
        if self._doomed:
            return _BREATH_S
        if not self._warm_up.is_done:
            return _SLOW_S if self._being_made() else 0  # a caller who waits for a sandbox comes before imports
        due = self._next_deadline()
        if not self._lacks()[0] and self._match_standing_claim() is None:
            self._just_ended = False
            return due
        quiet = _BREATH_S if self._just_ended else _QUIET_S
        return quiet if due is None else min(due, quiet)

    def _lacks(self) -> tuple[bool, CommandData | None]:
        if self._retirement.begun or self._failures >= _GIVE_UP:
            return False, None
        return self._pool.lacks(self._sandboxes.values())

    def _idle(self) -> None:
        if not self._warm_up.is_done:
            if not self._being_made() and self._warm_up.step(self._enforce_limits):
                self._control.send(marshal.dumps({"warm": True}))
            return
        match = self._match_standing_claim()
        if match is not None:
            self._serve_standing_claim(*match)
            return
        lacks, first_command = self._lacks()
        if lacks:
            try:
                self._fork(self._configuration["usual_order"], spare=True, first_command=first_command)
            except OSError:
                self._failures += 1
            return
        for sandbox in self._pool.outdated(self._sandboxes.values()):
            self._end(sandbox, "")
        if time.monotonic() - self._last_claim > recycling.KEEP_S:
            self._recycler.give_up()
        if self._warm_up.later_in_s(self._last_claim) == 0.0 and self._warm_up.step_later(self._enforce_limits):
            for sandbox in [each for each in self._sandboxes.values() if each.is_free()]:
                self._end(sandbox, "")

    def _enforce_limits(self) -> None:
        """Enforce the limits of the sandboxes that are in use; called while something takes long."""
        for sandbox in list(self._sandboxes.values()):
            group = sandbox.group
            if sandbox.begun and not sandbox.dead and group is not None and group.watch_fd is not None:
                self._look_at_memory(sandbox)
        self._end_overdue()
