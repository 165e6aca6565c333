"""Shows programs the limits of their sandbox, in the places where they would look for the host's CPUs and memory.

Runtimes choose the number of their threads by the CPUs that they find, and a sandbox with one CPU on a host with sixty
would only switch between sixty threads.  There are two places.  The C library and others read files below /sys, which
are links to files of the sandbox's own.  OpenMP, Go, Rust, Node, Java and others call `sched_getaffinity`, which the
filter hands to the agent (`answer_affinity`).  No affinity is set: the scheduler remains free to use any CPU, and the
control group limits the time (docs/decisions/0024-threads-follow-cpu.md).

A program can change or avoid both.  It then has more threads, and no more CPU time.
"""

from __future__ import annotations

import os
from _struct import pack

from cloche.agent import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.claim import OrderData

_FOLDER = "/tmp/.config/limits"  # beside Matplotlib's files
# Files below /sys, and the file of ours that each is a link to.  The second half is for control groups of version 1.
LINKS = {
    **dict.fromkeys((f"devices/system/cpu/{name}" for name in ("online", "possible", "present")), "cpus"),
    "fs/cgroup/cgroup.controllers": "controllers",
    "fs/cgroup/cpu.max": "cpu.max",
    "fs/cgroup/memory.max": "memory",
    "fs/cgroup/memory/memory.limit_in_bytes": "memory",
}
_SYS_FOLDERS = (
    *("sys", "sys/devices", "sys/devices/system", "sys/devices/system/cpu"),
    *("sys/fs", "sys/fs/cgroup", "sys/fs/cgroup/memory"),
)
_PERIOD_US = 100_000

_writev = libc.function("process_vm_writev", "llllll")
_cpus = sorted(os.sched_getaffinity(0))  # of the nursery; no sandbox has more
_asked_words = _cpus[-1] // 64 + 1  # 64-bit words of a mask


def make_links(top: str) -> None:
    """Make the links in the root file system that all sandboxes share."""
    for path in _SYS_FOLDERS:
        os.mkdir(f"{top}/{path}")
    for path, target in LINKS.items():
        os.symlink(f"{_FOLDER}/{target}", f"{top}/sys/{path}")


def cpus(order: OrderData) -> int:
    """The number of CPUs that a sandbox shows: as many as it can keep busy."""
    return max(1, min(-int(-order["cpu"] // 1), len(_cpus)))


def furnish(cpus: int, memory: int) -> None:
    """Write the files of a new sandbox."""
    os.mkdir(_FOLDER)
    _write("controllers", b"cpu memory\n")
    write(cpus, memory)


def write(cpus: int, memory: int) -> None:
    """Write the files that depend on the limits."""
    _write("cpus", b"0-%d\n" % (cpus - 1) if cpus > 1 else b"0\n")
    _write("cpu.max", b"%d %d\n" % (cpus * _PERIOD_US, _PERIOD_US))
    _write("memory", b"%d\n" % memory)


def variables(cpus: int) -> dict[str, str]:
    """The environment variables that depend on the limits.

    joblib counts the cores of the machine with tools that a sandbox may lack, and warns if it cannot.
    """
    return {"LOKY_MAX_CPU_COUNT": str(cpus)}


def answer_affinity(caller: int, arguments: list[int], cpus: int) -> int:
    """Write the mask of a sandbox with this number of CPUs to a caller of `sched_getaffinity`.

    Returns the result of the call, or 0 if the kernel should answer: the mask has no room, the process has set an
    affinity itself, or its memory cannot be written.
    """
    thread, size, address = arguments[0] & 0xFFFFFFFF, arguments[1] & 0xFFFFFFFF, arguments[2]
    wanted = 8 * _asked_words
    if cpus >= len(_cpus) or size < wanted or size % 8 or _has_own_affinity(thread or caller):
        return 0
    mask = libc.fixed(sum(1 << cpu for cpu in _cpus[:cpus]).to_bytes(wanted, "little"))
    here, there = libc.fixed(pack("@PP", libc.address(mask), wanted)), libc.fixed(pack("@PP", address, wanted))
    written = _writev(caller, libc.address(here), 1, libc.address(there), 1, 0)
    return wanted if written == wanted else 0


def _has_own_affinity(thread: int) -> bool:
    try:
        fd = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 8192)  # fails if the process ends in this moment
        finally:
            os.close(fd)
    except OSError:
        return True  # there is no such process, and the kernel says so
    allowed = int(text.partition(b"\nCpus_allowed:\t")[2].partition(b"\n")[0].replace(b",", b"") or b"0", 16)
    return allowed != sum(1 << cpu for cpu in _cpus)


def _write(name: str, data: bytes) -> None:
    fd = os.open(f"{_FOLDER}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
