"""Chooses the processes to kill when a sandbox has used up its memory."""

from __future__ import annotations

import os
from time import monotonic

from cloche.walls.jail.cgroup_files import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.sandbox_process import SandboxProcess

_STRIKES = 8  # the sandbox is killed after this many shortages in a row, although every program was killed
_DYING_S = 0.25  # time for a killed process to end; until then its memory is not counted against the others
_FROZEN = b"checkpoint"  # the name of a frozen kernel, which is killed after other processes (kernels/forking.py)


def relieve(sandbox: SandboxProcess, proc: int) -> bool:
    """Check a sandbox's memory and kill programs if it is short.  False if only ending the sandbox would help.

    Programs are killed, and the agent stays to report that: the sandbox keeps its files, and can run other programs.
    The largest program goes first, then all but checkpoints, then the checkpoints.  `proc` is the host's /proc.
    """

    def files() -> int:
        status = os.fstatvfs(sandbox.workspace)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    if not sandbox.group.check(files):
        sandbox.memory_strikes = 0
        return True
    present = sandbox.group.processes()
    if not present.isdisjoint(sandbox.dying) and monotonic() < sandbox.dies_until:
        return True
    sandbox.memory_kills += 1
    sandbox.memory_strikes += 1
    programs = {pid: _size_of(pid, proc) for pid in present - {sandbox.pid}}
    live = {pid: size for pid, size in programs.items() if size is not None}
    spared = {sandbox.pid}
    if sandbox.memory_strikes == 1 and live:
        spared |= programs.keys() - {max(live, key=live.__getitem__)}
    elif sandbox.memory_strikes == 2 and live:
        spared |= programs.keys() - live.keys()
    sandbox.dying, sandbox.dies_until = programs.keys() - spared, monotonic() + _DYING_S
    return bool(sandbox.group.kill_all_but(spared)) and sandbox.memory_strikes <= _STRIKES


def _size_of(pid: int, proc: int) -> int | None:
    """Return the memory of a process; None for a frozen kernel."""
    try:
        process = os.pidfd_open(pid)
        try:
            information = read(proc, f"self/fdinfo/{process}")  # process numbers on the host differ from ours
        finally:
            os.close(process)
        host_pid = int(information.partition(b"Pid:")[2].split()[0])
        if read(proc, f"{host_pid}/comm").strip() == _FROZEN:
            return None
        return int(read(proc, f"{host_pid}/statm").split()[1])
    except (OSError, ValueError, IndexError):
        return 0  # the process has just ended
