"""When a sandbox has no memory left: who in it has to go."""

from __future__ import annotations

import os
from time import monotonic

from cloche.walls.jail.cgroup_files import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.sandbox_process import Ward

_STRIKES = 8  # times in a row that memory is short although every program was killed: then the sandbox goes, too
_DYING_S = 0.25  # so long may take what was killed: until then its memory is not held against the others
_FROZEN = b"500"  # the oom_score_adj of a frozen kernel, which goes later than others (kernels/forking.py)


def relieve(ward: Ward, proc: int) -> bool:
    """Look how much memory a sandbox uses; kill what uses too much.  False when only its own end would help.

    Its programs have to go, and the agent stays to tell about it: the sandbox has files, and a next turn.  First the
    largest, then all but checkpoints, and these if it is they who need so much.  `proc` is the host's /proc.
    """

    def files() -> int:
        status = os.fstatvfs(ward.workspace)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    if not ward.group.check(files):
        ward.memory_strikes = 0
        return True
    present = ward.group.processes()
    if not present.isdisjoint(ward.dying) and monotonic() < ward.dies_until:
        return True
    ward.memory_kills += 1
    ward.memory_strikes += 1
    programs = {pid: _size_of(pid, proc) for pid in present - {ward.pid}}
    live = {pid: size for pid, size in programs.items() if size is not None}
    spared = {ward.pid}
    if ward.memory_strikes == 1 and live:
        spared |= programs.keys() - {max(live, key=live.__getitem__)}
    elif ward.memory_strikes == 2 and live:
        spared |= programs.keys() - live.keys()
    ward.dying, ward.dies_until = programs.keys() - spared, monotonic() + _DYING_S
    return bool(ward.group.kill_all_but(spared)) and ward.memory_strikes <= _STRIKES


def _size_of(pid: int, proc: int) -> int | None:
    """The memory of a process; None for a frozen kernel."""
    try:
        process = os.pidfd_open(pid)
        try:
            told = read(proc, f"self/fdinfo/{process}")  # the host's /proc counts otherwise than we do
        finally:
            os.close(process)
        host_pid = int(told.partition(b"Pid:")[2].split()[0])
        if read(proc, f"{host_pid}/oom_score_adj").strip() == _FROZEN:
            return None
        return int(read(proc, f"{host_pid}/statm").split()[1])
    except (OSError, ValueError, IndexError):
        return 0  # it has just ended
