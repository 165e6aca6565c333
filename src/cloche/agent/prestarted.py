"""A command that is started before it is requested, and waits just before it would read its program.

The agent traces the command up to the first system call whose result depends on the request, for example the first call
that names a file of the sandbox.  The command stops there until exactly this command is requested, and then continues
untraced.  Its arguments, environment, descriptors and working directory are the same as if it had been started then.
"""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import libc, oom_score, python, signals
from cloche.agent.spawning import pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

_ptrace = libc.function("ptrace", "llll")
_TRACEME, _DETACH, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 17, 24, 0x4200, 0x420E
# Marks system-call stops, reports exec as an event, kills the tracee when the agent dies.
_OPTIONS = 0x1 | 0x10 | 0x100000
_SYSCALL_STOP = 5 | 0x80
_ENTRY = 1  # a call is about to start, as opposed to has just returned
_INFO_BYTES = 88  # bytes of the kernel's report on a call: its number is at 24, its arguments follow
_MAX_STOPS = 20_000  # Node has about a thousand
_MAX_PATH = 4096  # bytes of a path
_POLL_S = 0.02  # how often `meanwhile` is called
_TIMEOUT_S = 5.0  # to reach the stop; a caller who gets this sandbox in the meantime waits that long


class PrestartedCommand:
    """A command that is stopped until it is requested."""

    def __init__(
        self,
        agent: Agent,
        argv: list[str],
        env: dict[str, str],
        stops: dict[int, int],
        places: tuple[str, ...],
        meanwhile: Callable[[], None],
    ) -> None:
        """Start the command and run it up to its stop.

        `stops` maps the numbers of the calls to stop before to an argument: -1 stops always, 0 or more stops only if
        that argument is a path in `places`.  `meanwhile` is called regularly until the stop is reached.
        """
        self._argv, self._stops = argv, stops
        self._places = tuple(place.encode() for place in places)
        self._environment = {**agent.environment, **env}
        self.alive = False
        child_ends, (self.stdin, self.stdout, self.stderr) = pipes()
        self.pid = oom_score.expendable(os.fork)
        if self.pid == 0:
            self._begin(agent.home, child_ends)
        for fd in child_ends:
            os.close(fd)
        self._info = libc.fixed(bytes(_INFO_BYTES))
        if self._advance_in_time(meanwhile):
            self.alive = True
            agent.adopt(self.pid, self._ended)
        else:
            self._close()

    def matches(self, argv: list[str], environment: dict[str, str]) -> bool:
        """Say whether a request with these arguments and this environment would start exactly this command."""
        return self.alive and argv == self._argv and environment == self._environment

    def resume(self) -> None:
        """Let the command continue: it was requested."""
        _ptrace(_DETACH, self.pid, 0, 0)

    def discard(self) -> None:
        """Kill the command: it will not be requested."""
        if self.alive:
            os.kill(self.pid, signals.SIGKILL)

    def _begin(self, home: str, descriptors: tuple[int, ...]) -> None:
        try:
            os.setsid()
            for number, fd in enumerate(descriptors):
                os.dup2(fd, number)
            python.reset_all_signals()
            os.chdir(home)
            if _ptrace(_TRACEME, 0, 0, 0) == 0:  # some hosts forbid tracing
                os.execve(self._argv[0], self._argv, self._environment)
        finally:
            os._exit(127)

    def _advance_in_time(self, meanwhile: Callable[[], None]) -> bool:
        """Advance with a time limit, and call `meanwhile` regularly.

        The agent's loop stands still in here, and the command may be waiting for the agent: for an answer to a refused
        system call.
        """
        until = monotonic() + _TIMEOUT_S

        def poll(*_: Any) -> None:
            meanwhile()
            if monotonic() > until:
                try:
                    os.kill(self.pid, signals.SIGKILL)
                except ProcessLookupError:
                    pass  # it has just ended on its own

        signals.signal(signals.SIGALRM, poll)
        signals.setitimer(signals.ITIMER_REAL, _POLL_S, _POLL_S)
        try:
            return self._advance()
        finally:
            signals.setitimer(signals.ITIMER_REAL, 0)
            signals.signal(signals.SIGALRM, signals.SIG_DFL)

    def _advance(self) -> bool:
        """Run the command up to its stop; False if it never gets there, or cannot be traced here."""
        _, status = os.waitpid(self.pid, 0)  # the child stops by itself once exec has succeeded
        if not os.WIFSTOPPED(status):
            return False
        _ptrace(_SETOPTIONS, self.pid, 0, _OPTIONS)
        forwarded_signal = 0
        for _ in range(_MAX_STOPS):
            _ptrace(_SYSCALL, self.pid, 0, forwarded_signal)
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                return False
            reason = os.WSTOPSIG(status)
            if reason == _SYSCALL_STOP and self._is_at_stop():
                return True
            # Pass on signals that the command received.
            forwarded_signal = 0 if reason == _SYSCALL_STOP or status >> 16 else reason
        os.kill(self.pid, signals.SIGKILL)
        os.waitpid(self.pid, 0)
        return False

    def _is_at_stop(self) -> bool:
        """Say whether the command is about to make one of the calls to stop before."""
        if _ptrace(_GET_SYSCALL_INFO, self.pid, _INFO_BYTES, libc.address(self._info)) < 0:
            return False
        info = bytes(self._info)
        if info[0] != _ENTRY:
            return False
        words = [int.from_bytes(info[at : at + 8], "little") for at in range(24, _INFO_BYTES, 8)]
        argument = self._stops.get(words[0])
        if argument is None:
            return False
        return argument < 0 or self._text_at(words[1 + argument]).startswith(self._places)

    def _text_at(self, address: int) -> bytes:
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, min(_MAX_PATH, 4096 - address % 4096), address).partition(b"\0")[0]
        except OSError:
            return b""
        finally:
            os.close(memory)

    def _ended(self, _status: int, _usage: Any) -> None:
        self.alive = False
        self._close()

    def _close(self) -> None:
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
