"""Who is in a nursery's care: a newborn on its way behind the wall, a ward, and the claim that somebody has on it."""

from __future__ import annotations

import gc
import marshal
import os
from time import monotonic

from cloche.agent import processes, signals, stages  # noqa: F401  (the agent imports them when there is nothing left to import from)
from cloche.agent.ahead import Ahead
from cloche.agent.main import Agent
from cloche.walls import sockets
from cloche.walls.jail import linux, root
from cloche.walls.jail.enter import enter
from cloche.walls.jail.refused_calls import Refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_IGNORED_BY_US = (signals.SIGINT, signals.SIGPIPE, signals.SIGXFSZ)  # and seen to when a program is started


class Newborn(BaseException):
    """Raised in a fork of the nursery: leave its stack, and become a sandbox."""

    def __init__(self, plan: dict[str, Any], parking: sockets.Socket) -> None:
        super().__init__()
        self._plan, self._parking = plan, parking

    def live(self) -> None:
        """Go behind the wall, wait for a claim, serve it."""
        parking = self._parking
        _heed_signals()
        try:
            listener, store = enter(self._plan, parking)
        except BaseException as problem:
            parking.send(b"!" + f"{type(problem).__name__}: {problem}".encode())
            os._exit(1)
        linux.close_all_but([0, 1, 2, parking.fileno(), store, *([] if listener is None else [listener])])
        gc.enable()
        parking.send(b"R")
        agent = None
        refusals = None if listener is None else Refusals(listener)
        if self._plan["spare"]:
            agent = Agent(parking.fileno(), parking.fileno(), self._plan["environment"], root.WORKSPACE)
            os.set_blocking(parking.fileno(), True)
            command = self._plan["ahead"]
            if command is None:
                agent.spare = processes.Spare(agent, early=self._plan["rehearse"])
            meanwhile = refusals.answer_all if refusals is not None else _nothing
            ahead = None if command is None else Ahead(agent, **command, meanwhile=meanwhile)
            if self._plan["rehearse"]:
                agent.rehearse()  # after these: a fork has all memory shared once more
            agent.ahead = ahead
        message, descriptors = sockets.receive(parking, 64, 1)
        if message != b"C" or not descriptors:
            os._exit(0)  # nobody needs us
        stream = descriptors[0]
        if agent is None:
            agent = Agent(stream, stream, self._plan["environment"], root.WORKSPACE)
        else:
            agent.connect(stream)
        parking.close()
        furnish = self._plan["furnish"]
        if furnish is not None:
            agent.furnish = lambda: furnish(agent, store)
        if refusals is not None:
            agent.refused = refusals.seen
            agent.watch(refusals.listener, refusals.answer)
        agent.serve()
        os._exit(0)


def _nothing() -> None:
    """What there is to do while a command starts, where no filter asks for an answer."""


def _heed_signals() -> None:
    """What whoever started us ignores (`nohup` does) is nothing that programs inside should ignore, too."""
    for number in range(1, 32):
        if number not in _IGNORED_BY_US and signals.getsignal(number) == signals.SIG_IGN:
            signals.signal(number, signals.SIG_DFL)


class Ward:
    """A sandbox in the nursery's care."""

    def __init__(self, pid: int, parking: sockets.Socket, group: Any, shape: str) -> None:
        self.pid, self.parking, self.group, self.shape = pid, parking, group, shape
        self.host_pid = 0
        self.limits: dict[str, Any] = {}
        self.ahead = ""  # the command that has been started in it, if one has
        self.workspace = -1  # a descriptor of its file system, to ask how full it is
        self.network = -1  # of its network namespace, for the next sandbox
        self.ready = False
        self.claim: Claim | None = None
        self.begun = False  # does somebody use it?
        self.reason = ""  # why it was killed, when it was us
        self.dead = False
        self.born = monotonic()
        self.memory_kills = self.memory_strikes = 0  # times that its programs needed too much; in a row
        self.dying: set[int] = set()  # who was killed for that last
        self.dies_until = 0.0

    def pause(self, stop: bool) -> bool:
        """Stop all that is in it, or have it go on; is it stopped now?"""
        if self.group is None:
            return False
        try:
            done = self.group.stop(stop, self.pid)
            if stop and not done:
                self.group.stop(False, self.pid)
        except OSError:
            done = False  # it has just ended, or the kernel has no freezer
        return stop if done else not stop

    def is_unused(self) -> bool:
        """Is it claimed, but nobody's yet?"""
        return self.claim is not None and self.ready and not (self.begun or self.dead or self.reason)

    def is_free(self) -> bool:
        """Can it be claimed?"""
        return self.claim is None and not self.dead and not self.reason


class Claim:
    """What the engine wants a sandbox for."""

    def __init__(self, request: dict[str, Any], stream: int, leash: sockets.Socket) -> None:
        self.request, self.stream, self.leash = request, stream, leash
        self.command = "" if request["ahead"] is None else repr(request["ahead"])  # that it begins with
        self.deadline: float | None = None
        self.told_end = False

    def tell(self, **message: Any) -> None:
        """Send a message up the leash; the engine may be gone, or not be listening."""
        try:
            self.leash.send(marshal.dumps(message), sockets.DONTWAIT)
        except OSError:
            pass

    def drop(self) -> None:
        """Nobody speaks on it any more."""
        self.leash.close()
        if self.stream >= 0:
            os.close(self.stream)
