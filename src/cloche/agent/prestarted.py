"""A command that is started before anybody asks for it, and waits right before it would look at its program.

It runs as it always does, traced by us, up to the system call from which on it depends on what is asked for: the first
that names a file of the sandbox's, say.  There it stands until somebody asks for exactly this command, and then goes on
by itself, traced no more: its arguments, environment, descriptors and working directory are what they would have been.
"""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import libc, processes, python, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

_ptrace = libc.function("ptrace", "llll")
_TRACEME, _DETACH, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 17, 24, 0x4200, 0x420E
_OPTIONS = 0x1 | 0x10 | 0x100000  # a system call's stop has a sign of its own, exec stops by an event, all end with us
_SYSCALL_STOP = 5 | 0x80
_ENTRY = 1  # a call is about to be made, not one that was
_INFO = 88  # bytes of what the kernel tells of a call: at 24 its number, then its arguments
_MOST_STOPS = 20_000  # Node has about a thousand
_LONGEST = 4096  # of a path
_LOOK_S = 0.02  # between two looks at what has to be done while it runs
_PATIENCE_S = 5.0  # until it has to be there: whoever gets this sandbox meanwhile waits for it


class PrestartedCommand:
    """A command that waits to be asked for."""

    def __init__(
        self,
        agent: Agent,
        argv: list[str],
        env: dict[str, str],
        stops: dict[int, int],
        places: tuple[str, ...],
        meanwhile: Callable[[], None],
    ) -> None:
        """`stops` are the calls to wait before: always, or (at least 0) if that argument is a path in `places`.

        `meanwhile` is called every now and then until it is there.
        """
        self._argv, self._stops = argv, stops
        self._places = tuple(place.encode() for place in places)
        self._environment = {**agent.environment, **env}
        self.alive = False
        theirs, (self.stdin, self.stdout, self.stderr) = processes.pipes()
        self.pid = os.fork()
        if self.pid == 0:
            self._begin(agent.home, theirs)
        for fd in theirs:
            os.close(fd)
        self._info = libc.fixed(bytes(_INFO))
        if self._advance_in_time(meanwhile):
            self.alive = True
            processes.expose_to_oom(self.pid)
            agent.adopt(self.pid, self._ended)
        else:
            self._close()

    def is_for(self, argv: list[str], environment: dict[str, str]) -> bool:
        """Is this what it would have been started as?"""
        return self.alive and argv == self._argv and environment == self._environment

    def go(self) -> None:
        """Let it go on: it has been asked for."""
        _ptrace(_DETACH, self.pid, 0, 0)

    def discard(self) -> None:
        """Nobody will ask for it."""
        if self.alive:
            os.kill(self.pid, signals.SIGKILL)

    def _begin(self, home: str, descriptors: tuple[int, ...]) -> None:
        try:
            os.setsid()
            for number, fd in enumerate(descriptors):
                os.dup2(fd, number)
            python.reset_all_signals()
            os.chdir(home)
            if _ptrace(_TRACEME, 0, 0, 0) == 0:  # not everywhere: some hosts forbid it
                os.execve(self._argv[0], self._argv, self._environment)
        finally:
            os._exit(127)

    def _advance_in_time(self, meanwhile: Callable[[], None]) -> bool:
        """Nobody else does our work while we wait for it, and it may wait for us: for an answer to a refused call."""
        until = monotonic() + _PATIENCE_S

        def look(*_: Any) -> None:
            meanwhile()
            if monotonic() > until:
                try:
                    os.kill(self.pid, signals.SIGKILL)
                except ProcessLookupError:
                    pass  # it has just ended by itself

        signals.signal(signals.SIGALRM, look)
        signals.setitimer(signals.ITIMER_REAL, _LOOK_S, _LOOK_S)
        try:
            return self._advance()
        finally:
            signals.setitimer(signals.ITIMER_REAL, 0)
            signals.signal(signals.SIGALRM, signals.SIG_DFL)

    def _advance(self) -> bool:
        """Have it run up to where it shall wait; False if it never comes there, or must not be traced here."""
        _, status = os.waitpid(self.pid, 0)  # it stops by itself, once it has become another program
        if not os.WIFSTOPPED(status):
            return False
        _ptrace(_SETOPTIONS, self.pid, 0, _OPTIONS)
        passed = 0
        for _ in range(_MOST_STOPS):
            _ptrace(_SYSCALL, self.pid, 0, passed)
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                return False
            reason = os.WSTOPSIG(status)
            if reason == _SYSCALL_STOP and self._is_there():
                return True
            passed = 0 if reason == _SYSCALL_STOP or status >> 16 else reason  # a signal of its own is passed on
        os.kill(self.pid, signals.SIGKILL)
        os.waitpid(self.pid, 0)
        return False

    def _is_there(self) -> bool:
        """Is it about to make one of the calls that it shall wait before?"""
        if _ptrace(_GET_SYSCALL_INFO, self.pid, _INFO, libc.address(self._info)) < 0:
            return False
        info = bytes(self._info)
        if info[0] != _ENTRY:
            return False
        words = [int.from_bytes(info[at : at + 8], "little") for at in range(24, _INFO, 8)]
        argument = self._stops.get(words[0])
        if argument is None:
            return False
        return argument < 0 or self._text_at(words[1 + argument]).startswith(self._places)

    def _text_at(self, address: int) -> bytes:
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, min(_LONGEST, 4096 - address % 4096), address).partition(b"\0")[0]
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
