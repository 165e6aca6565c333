"""Which sandboxes are made ahead of claims: some for anything, and one for each command that was asked for of late."""

from __future__ import annotations

import os
from time import monotonic

from cloche.walls.jail import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cloche.walls.jail.sandbox_process import Ward

_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_COMMANDS = min(10, max(2, _MEMORY >> 28))  # that are kept ready at most: a waiting Node takes 30 MB, a Bash 1 MB
_KEEP_S = 300.0  # for how long after it was last asked for
_PLACES = ("/sandbox", "/home/user", "/tmp/build")  # whose files are the run's own
_PATHS = {  # calls that name a file, and which argument does
    **dict.fromkeys(("open", "stat", "lstat", "access", "readlink", "chdir", "execve"), 0),
    **dict.fromkeys(("openat", "openat2", "newfstatat", "statx", "readlinkat", "faccessat", "faccessat2"), 1),
}


class Pool:
    """What should be ready, and what of it is."""

    def __init__(self, size: int) -> None:
        self._size = size  # sandboxes for anything; 0: nothing is made ahead
        self._commands: dict[str, tuple[dict[str, Any], float]] = {}  # and when they were asked for last; latest last

    def note(self, ahead: dict[str, Any] | None) -> None:
        """A sandbox is asked for, to begin with this command."""
        if ahead is not None:
            self._commands.pop(repr(ahead), None)
            self._commands[repr(ahead)] = ahead, monotonic()
            while len(self._commands) > _COMMANDS:
                del self._commands[next(iter(self._commands))]

    def choose(self, wards: Iterable[Ward], shape: str, ahead: dict[str, Any] | None) -> Ward | None:
        """The sandbox to give: one in which the command waits, or else one for anything."""
        wanted = "" if ahead is None else repr(ahead)
        plain = None
        for ward in wards:
            if ward.shape == shape and ward.is_free():
                if ward.ahead == wanted:
                    return ward
                if not ward.ahead:
                    plain = ward
        return plain

    def lacks(self, wards: Iterable[Ward]) -> tuple[bool, dict[str, Any] | None]:
        """Should another one be made, and with which command?"""
        if not self._size:
            return False, None
        free = [ward.ahead for ward in wards if ward.is_free() or (ward.ahead and ward.is_unused())]
        if free.count("") < self._size:
            return True, None
        missing = [ahead for key, (ahead, _) in self._commands.items() if key not in free]
        return bool(missing), missing[-1] if missing else None

    def outdated(self, wards: Iterable[Ward]) -> list[Ward]:
        """Those whose command nobody has asked for in a long time."""
        old = monotonic() - _KEEP_S
        for key in [key for key, (_, asked) in self._commands.items() if asked < old]:
            del self._commands[key]
        unused = (ward for ward in wards if ward.is_free() or ward.is_unused())
        return [ward for ward in unused if ward.ahead and ward.ahead not in self._commands]

    def next_look(self) -> float | None:
        """In how many seconds one may be outdated."""
        if not self._commands:
            return None
        return max(0.0, min(asked for _, asked in self._commands.values()) + _KEEP_S - monotonic()) + 0.1


def started(ahead: dict[str, Any] | None) -> dict[str, Any] | None:
    """A command as the agent is to start it (see agent.ahead): how it is called, and where it waits."""
    if ahead is None:
        return None
    numbers = syscalls.numbers(os.uname().machine)
    if ahead["until"] == "files":
        stops = {numbers[name]: argument for name, argument in _PATHS.items() if name in numbers}
    else:
        stops = {numbers[ahead["until"]]: -1}
    return {"argv": list(ahead["argv"]), "env": ahead["env"], "stops": stops, "places": _PLACES}
