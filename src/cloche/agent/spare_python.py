"""Spare Pythons: forks of the warm agent that wait to become a program or a kernel."""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_STREAM, socketpair

from cloche.agent import oom_score, own_packages, python, signals
from cloche.agent.spawning import pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent
    from cloche.agent.messages import KernelOrder, ProgramOrder


class Spare:
    """A forked Python that waits for the order to become a program or a kernel."""

    def __init__(self, agent: Agent, early: bool = False, program: ProgramOrder | None = None) -> None:
        """Fork a Python.

        `early`: there is time until the order comes, for a warm-up.  `program`: the order is known already, and need
        not be sent.
        """
        child_ends, (self.stdin, self.stdout, self.stderr) = pipes()
        self.order, order = -1, None
        if program is None:
            # A socket, not a pipe: for a kernel, it becomes the control.
            self.order, order = (end.detach() for end in socketpair(AF_UNIX, SOCK_STREAM))
        self.own_entries = own_packages.entries() if early else {}
        self.pid = oom_score.expendable(os.fork)
        if self.pid == 0:
            raise python.BecomeProgram(*child_ends, order, agent.environment if early else None, program)
        for fd in child_ends if order is None else (*child_ends, order):
            os.close(fd)
        self.alive = True
        agent.adopt(self.pid, self._ended)

    def send(self, order: ProgramOrder | KernelOrder) -> None:
        """Send the order: the program or kernel to become."""
        try:
            python.send_order(self.order, order)
        except BrokenPipeError:
            pass  # the process has died; its end is reported like any other

    def kill(self, agent: Agent) -> None:
        """Kill the process, to make room for another one under the process limit."""
        os.kill(self.pid, signals.SIGKILL)
        agent.await_end(self.pid)

    def _ended(self, _status: int, _usage: Any) -> None:
        self.alive = False
        for fd in (self.stdin, self.stdout, self.stderr, self.order):
            os.close(fd)


def start_program(agent: Agent, program: ProgramOrder) -> Spare:
    """Let the waiting spare become the program, or fork one that does."""
    if agent.spare is None or not agent.spare.alive:
        return Spare(agent, program=program)
    spare = take_spare(agent)
    spare.send(program)
    os.close(spare.order)
    return spare


def gave_way(agent: Agent) -> bool:
    """End the waiting spare, to make room for another process; return whether there was one."""
    spare: Spare | None = agent.spare
    agent.spare = None
    if spare is None or not spare.alive:
        return False
    spare.kill(agent)
    return True


def take_spare(agent: Agent) -> Spare:
    """Return the waiting spare, or fork one."""
    spare: Spare | None = agent.spare
    agent.spare = None
    if spare is None or not spare.alive:
        return Spare(agent)
    if own_packages.have_changed(spare.own_entries):  # it has imported the modules of an environment
        spare.kill(agent)
        return Spare(agent)
    return spare
