"""Who has to go when a process is ended: its descendants, the orphans that it left behind, or its session."""

from __future__ import annotations

import os

from cloche.agent import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.main import Agent


def end_tree(agent: Agent, root: int) -> None:
    """Kill a process, its descendants, and the orphans that it can have left behind.

    A descendant that made itself a daemon is a child of ours now.  Whatever orphan is younger than the root, and is not
    in the session of something else that we have started, is counted as the root's: better one too many than one too
    few.
    """
    fields = _stat(root)
    started = int(fields[19]) if fields else 0
    ourselves = os.getpid()  # 1, where the sandbox has a pid namespace of its own
    others = agent.children - {root}
    sessions_of_others = {*others, os.getsid(0)}  # ours: of errands
    while True:
        table = _table()
        doomed = {root}  # not reaped yet; a main thread that has ended looks dead while others of its threads go on
        grown = True
        while grown:
            grown = False
            for pid, (parent, session, start) in table.items():
                if pid in doomed or pid in others or pid == ourselves:
                    continue
                is_orphan = parent == ourselves and start >= started and session not in sessions_of_others
                if parent in doomed or is_orphan:
                    doomed.add(pid)
                    grown = True
        for pid in doomed:
            try:
                os.kill(pid, signals.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if doomed == {root}:
            return


def end_session(leader: int) -> None:
    """Kill a process and all that is in its session, as long as something is; what left it is on its own."""
    while True:
        doomed = [pid for pid in _pids() if _session_of(pid) == leader]
        for pid in doomed:
            try:
                os.kill(pid, signals.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if not doomed or doomed == [leader]:
            return


def _session_of(pid: int) -> int:
    """The session of a process that is alive; 0 when it is not."""
    fields = _stat(pid)
    return int(fields[3]) if fields and fields[0] not in ("Z", "X") else 0


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _table() -> dict[int, tuple[int, int, int]]:
    """Who is alive: by pid the parent, the session, and when it has started."""
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
