"""A fork of the nursery on its way behind the wall, where it becomes an agent."""

from __future__ import annotations

import gc
import os

from cloche.agent import build_steps, oom_score, package_requests, processes, python, signals, spare_python  # noqa: F401  (later they cannot be imported)
from cloche.agent.main import Agent
from cloche.agent.prestarted import PrestartedCommand
from cloche.walls import sockets
from cloche.walls.jail import linux, root, shown_limits
from cloche.walls.jail.enter import enter
from cloche.walls.jail.refused_calls import RefusedCalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.plan import Plan

_IGNORED_BY_PYTHON = (signals.SIGINT, signals.SIGPIPE, signals.SIGXFSZ)  # reset when a program is started


class Newborn(BaseException):
    """Raised in a fork of the nursery, so that it leaves the nursery's stack before it becomes a sandbox."""

    def __init__(self, plan: Plan, parking: sockets.Socket) -> None:
        super().__init__()
        self._plan, self._parking = plan, parking

    def live(self) -> None:
        """Enter the jail, wait to be claimed, and serve the claim; never returns."""
        parking = self._parking
        _reset_signals()
        try:
            listener, store, bare_root, score = enter(self._plan, parking)
            packages = package_requests.listen()  # after the change of the network namespace
        except BaseException as problem:
            # The nursery keeps this text, and others are forked from the nursery: no path that the caller has named.
            reason = problem.strerror if isinstance(problem, OSError) and self._plan["mounts"] >= 0 else problem
            parking.send(b"!" + f"{type(problem).__name__}: {reason}".encode())
            os._exit(1)
        linux.close_all_but(
            [
                *(0, 1, 2, parking.fileno(), store, bare_root, score),
                *([] if listener is None else [listener]),
                *([] if packages is None else [packages.fileno()]),
            ]
        )
        oom_score.keep(score)
        gc.enable()
        self._unpack_environment()
        parking.send(b"R")
        refused = None if listener is None else RefusedCalls(listener, self._plan["cpus"])
        agent = self._prepared_agent(refused) if self._plan["spare"] else None
        message, descriptors = sockets.receive(parking, 64, 1)
        if message[:1] != b"C" or not descriptors:
            os._exit(0)  # the nursery does not need this sandbox any more
        stream = descriptors[0]
        cpus, memory = map(int, message[1:].split())
        self._show_limits(cpus, memory, refused)
        if agent is None:
            agent = Agent(stream, stream, self._plan["environment"], root.WORKSPACE)
        else:
            agent.connect(stream)
        parking.close()
        if packages is not None:
            package_requests.PackageRequests(agent, packages)
        furnish = self._plan["furnish"]
        if furnish is not None:
            agent.enable_sessions = lambda: furnish(agent, store, bare_root)
        if refused is not None:
            agent.refused = refused.seen
            agent.watch(refused.listener, refused.answer)
        agent.serve()
        if os.getpid() == 1:
            _kill_the_others()
        os._exit(0)

    def _unpack_environment(self) -> None:
        """Put the files of the sandbox's environment in their places; sealed, since programs have made the archive."""
        prepare = self._plan["prepare"]
        if prepare is not None:
            from cloche.agent import environment_files  # the nursery has imported it

            try:
                environment_files.unpack(prepare["archive"])
            except Exception as problem:  # whatever a crafted archive leads to
                self._parking.send(b"!" + f"the files of the environment: {type(problem).__name__}".encode())
                os._exit(1)
            python.import_ahead(prepare["imports"])

    def _show_limits(self, cpus: int, memory: int, refused: RefusedCalls | None) -> None:
        """Show the limits of the claim, if they differ from those that the sandbox was made with."""
        plan = self._plan
        if (cpus, memory) == (plan["cpus"], plan["memory"]):
            return
        shown_limits.write(cpus, memory)
        plan["environment"].update(shown_limits.variables(cpus))
        if refused is not None:
            refused.cpus = cpus

    def _prepared_agent(self, refused: RefusedCalls | None) -> Agent:
        """An agent that has started a Python, or the first command, before anybody claims it."""
        parking = self._parking
        agent = Agent(parking.fileno(), parking.fileno(), self._plan["environment"], root.WORKSPACE)
        os.set_blocking(parking.fileno(), True)
        command = self._plan["first_command"]
        if command is None:
            agent.spare = spare_python.Spare(agent, early=self._plan["rehearse"])
        meanwhile = refused.answer_all if refused is not None else _nothing
        prestarted = None if command is None else PrestartedCommand(agent, **command, meanwhile=meanwhile)
        if self._plan["rehearse"]:
            agent.rehearse()  # after the forks above, since a fork has all its memory shared once more
        agent.prestarted = prestarted
        return agent


def _kill_the_others() -> None:
    """Let the other processes of the sandbox end at the same time as this one, which is pid 1.

    The kernel would kill them only after it has freed the memory of this one, and a kernel's memory takes as long.
    """
    try:
        os.kill(-1, signals.SIGKILL)
    except OSError:
        pass  # there is none


def _nothing() -> None:
    """Stands for `answer_all` where no filter asks for answers."""


def _reset_signals() -> None:
    """Undo what the process that started the engine ignores (`nohup` does): programs inside should not inherit it."""
    for number in range(1, 32):
        if number not in _IGNORED_BY_PYTHON and signals.getsignal(number) == signals.SIG_IGN:
            signals.signal(number, signals.SIG_DFL)
