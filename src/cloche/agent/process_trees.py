"""Signals processes together: a process with its descendants and orphans, a session, or a group."""

from __future__ import annotations

import os

from cloche.agent import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.main import Agent


def end_tree(agent: Agent, root: int) -> None:
    """Kill a process, its descendants, and the orphans that it may have left behind.

    A descendant that became a daemon is now a child of the agent.  An orphan counts as the root's if it is younger than
    the root and not in the session of another process that the agent started: killing one too many is better than one
    too few.  Parents are killed before their children: a shell whose child is killed first ends by itself, with an exit
    code of its own, and its end no longer looks like a kill.
    """
    fields = _stat(root)
    started = int(fields[19]) if fields else 0
    ourselves = os.getpid()  # 1, if the sandbox has its own pid namespace
    others = agent.children - {root}
    sessions_of_others = {*others, os.getsid(0)}  # the agent's own session has the background jobs
    looks = 0
    while True:
        looks += 1
        table = _table()
        # Not reaped yet; a process whose main thread has ended looks dead while its other threads go on.
        doomed = {root: True}  # in the order of discovery: a parent comes before its children
        grown = True
        while grown:
            grown = False
            for pid, (parent, session, start) in table.items():
                if pid in doomed or pid in others or pid == ourselves:
                    continue
                is_orphan = parent == ourselves and start >= started and session not in sessions_of_others
                if parent in doomed or is_orphan:
                    doomed[pid] = True
                    grown = True
        for pid in doomed:
            try:
                os.kill(pid, signals.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if len(doomed) == 1 and looks > 1:  # the root may have started a process after the first look
            return


def end_session(leader: int) -> None:
    """Kill a process and everything in its session, until nothing is left; processes that left the session survive."""
    while True:
        doomed = [pid for pid in _pids() if _session_of(pid) == leader]
        for pid in doomed:
            try:
                os.kill(pid, signals.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if not doomed or doomed == [leader]:
            return


def signal_followers(leader: int, number: int) -> None:
    """Signal the processes of a group without its leader."""
    for pid in _pids():
        fields = _stat(pid)
        if pid != leader and fields and int(fields[2]) == leader:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass


def _session_of(pid: int) -> int:
    """Return the session of a live process, or 0."""
    fields = _stat(pid)
    return int(fields[3]) if fields and fields[0] not in ("Z", "X") else 0


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _table() -> dict[int, tuple[int, int, int]]:
    """Return the live processes: by pid the parent, the session and the start time."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields and fields[0] not in ("Z", "X"):
                table[int(name)] = int(fields[1]), int(fields[3]), int(fields[19])
    return table


def _stat(pid: int) -> list[str]:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(fd, 4096).rpartition(b")")[2].decode().split()
    except OSError:
        return []
    finally:
        os.close(fd)
