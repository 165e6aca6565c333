"""Decides which sandboxes are made ahead of claims: some for any order, and one for each recent first command."""

from __future__ import annotations

import os
from time import monotonic

from cloche.walls.jail import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cloche.walls.jail.claim import CommandData
    from cloche.walls.jail.sandbox_process import SandboxProcess

_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_COMMANDS = min(10, max(2, _MEMORY >> 28))  # most commands kept ready: a waiting Node takes 30 MB, a Bash 1 MB
_KEEP_S = 300.0  # a command is kept ready for this long after its last use
_PLACES = ("/sandbox", "/home/user", "/tmp/build")  # folders whose files belong to the run
_PATHS = {  # system calls that name a file, and the position of that argument
    **dict.fromkeys(("open", "stat", "lstat", "access", "readlink", "chdir", "execve"), 0),
    **dict.fromkeys(("openat", "openat2", "newfstatat", "statx", "readlinkat", "faccessat", "faccessat2"), 1),
}


class Pool:
    """Compares the sandboxes that are ready with those that should be ready."""

    def __init__(self, size: int) -> None:
        self._size = size  # number of sandboxes for any order; 0: nothing is made ahead
        self._commands: dict[str, tuple[CommandData, float]] = {}  # with the time of the last use; latest last

    def note(self, first_command: CommandData | None) -> None:
        """Note that an order asks for this first command."""
        if first_command is not None:
            key = repr(first_command)
            self._commands.pop(key, None)
            self._commands[key] = first_command, monotonic()
            while len(self._commands) > _COMMANDS:
                del self._commands[next(iter(self._commands))]

    def choose(
        self, sandboxes: Iterable[SandboxProcess], shape: str, first_command: CommandData | None
    ) -> SandboxProcess | None:
        """Choose a sandbox for a claim: one in which the command waits, or else one for any order."""
        wanted = "" if first_command is None else repr(first_command)
        plain = None
        for sandbox in sandboxes:
            if sandbox.shape == shape and sandbox.is_free():
                if sandbox.first_command == wanted:
                    return sandbox
                if not sandbox.first_command:
                    plain = sandbox
        return plain

    def lacks(self, sandboxes: Iterable[SandboxProcess]) -> tuple[bool, CommandData | None]:
        """Return whether another sandbox should be made, and its first command."""
        if not self._size:
            return False, None
        free = [each.first_command for each in sandboxes if each.is_free() or (each.first_command and each.is_unused())]
        if free.count("") < self._size:
            return True, None
        missing = [command for key, (command, _) in self._commands.items() if key not in free]
        return bool(missing), missing[-1] if missing else None

    def outdated(self, sandboxes: Iterable[SandboxProcess]) -> list[SandboxProcess]:
        """Return the sandboxes whose first command has not been used for a long time."""
        old = monotonic() - _KEEP_S
        for key in [key for key, (_, used) in self._commands.items() if used < old]:
            del self._commands[key]
        unused = (sandbox for sandbox in sandboxes if sandbox.is_free() or sandbox.is_unused())
        return [each for each in unused if each.first_command and each.first_command not in self._commands]

    def next_look(self) -> float | None:
        """Return in how many seconds a sandbox may be outdated; None if no sandbox will be."""
        if not self._commands:
            return None
        return max(0.0, min(used for _, used in self._commands.values()) + _KEEP_S - monotonic()) + 0.1


def as_started(command: CommandData | None) -> dict[str, Any] | None:
    """Describe a first command for the agent (agent/ahead.py), with the system calls before which it waits."""
    if command is None:
        return None
    numbers = syscalls.numbers(os.uname().machine)
    if command["until"] == "files":
        stops = {numbers[name]: argument for name, argument in _PATHS.items() if name in numbers}
    else:
        stops = {numbers[command["until"]]: -1}
    return {"argv": list(command["argv"]), "env": command["env"], "stops": stops, "places": _PLACES}
