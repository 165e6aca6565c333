"""Exhaustion and endings: each limit stops a program that passes it, by its own name; nothing outlives its sandbox."""

from __future__ import annotations

import os
import time

from cloche.doctor.probe import HELD, NOT_HELD, Probe, ProbeRun, judge_attempts, stopped_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.doctor.scene import Scene

_SURVIVORS = """
def spin(name):
    libc.prctl(15, name.encode(), 0, 0, 0)
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        time.sleep(0.01)

name = GIVEN["abstract"][-15:]
for kind in ("daemon", "stopped", "busy"):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            if kind == "stopped":
                libc.prctl(15, name.encode(), 0, 0, 0)
                os.kill(os.getpid(), signal.SIGSTOP)
            if kind == "busy":
                libc.prctl(15, name.encode(), 0, 0, 0)
                while True:
                    pass
            spin(name)
        os._exit(0)
    os.wait()
spin(name)
"""


def _survivors(scene: Scene, box: Sandbox | None) -> list[str]:
    """Find processes of the host that carry the name that the attacker gave to all of its own processes."""
    del box
    name, deadline = scene.abstract[-15:], time.monotonic() + 2
    while True:
        alive = [pid for pid in os.listdir("/proc") if pid.isdigit() and _name_of(pid) == name]
        if not alive or time.monotonic() > deadline:
            return [f"process {pid} is still alive" for pid in alive]
        time.sleep(0.02)


def _name_of(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


_HEAP = """
hoard = []
while len(hoard) < 64:
    hoard.append(b"x" * (16 << 20))
tell("1 GiB of heap", "gained")
"""

_SHARED_MEMORY = """
fd = os.memfd_create("hoard")
piece = b"x" * (4 << 20)
for _ in range(128):
    os.write(fd, piece)
time.sleep(0.5)
tell("512 MiB in a memfd", "gained")
"""

# Each child says when it has its memory.  Those that are alive when all have spoken or died have it at the same time.
_CHILDREN_MEMORY = """
children = []
for _ in range(8):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        hoard = bytearray(96 << 20)
        hoard[::4096] = b"x" * len(hoard[::4096])
        os.write(writing, b"full")
        time.sleep(60)
    os.close(writing)
    children.append((pid, reading))
full = [pid for pid, reading in children if os.read(reading, 4)]
alive = [pid for pid in full if os.waitpid(pid, os.WNOHANG) == (0, 0)]
tell(f"{len(alive)} children with 96 MiB each", "gained" if len(alive) > 1 else "refused")
"""

_FORK_BOMB = """
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError as problem:
    tell(f"{made} processes", "gained" if made > 40 else "refused", name_of(problem))
    raise
tell(f"{made} processes", "gained")
"""

_DISK = """
for folder in ("/sandbox/output", "/tmp", "/dev/shm", "/root"):
    try:
        with open(f"{folder}/hoard", "wb", buffering=0) as file:
            for _ in range(64):
                file.write(b"x" * (1 << 20))
        tell(f"64 MiB in {folder}", "gained")
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        last = problem
raise last
"""

_INODES = """
for number in range(200_000):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
tell("200,000 files", "gained")
"""

_OUTPUT = """
piece = b"x" * (1 << 20)
for _ in range(4096):
    os.write(1, piece)
"""

_DESCRIPTORS = """
try:
    for number in range(200_000):
        os.dup(0)
    tell("200,000 descriptors", "gained")
except OSError as problem:
    tell("descriptors", "refused", name_of(problem))
"""

# Four processes run at once for a while; the kernel counts the processor time that they get.
_PROCESSOR = """
import resource
until = time.monotonic() + 1.5
for _ in range(4):
    if os.fork() == 0:
        while time.monotonic() < until:
            pass
        os._exit(0)
for _ in range(4):
    os.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
tell("processor time", "refused", used.ru_utime + used.ru_stime)
"""

_CPU = 0.1  # processors, for the probe of the processor limit


def _within_processor_limit(seen: ProbeRun) -> tuple[str, str]:
    times = [float(text) for what, _, text in seen.attempts if what == "processor time"]
    if not times:
        return judge_attempts(seen)
    # The kernel grants a quota in slices to each processor: a short run may get a little more than its share.
    if times[0] <= _CPU * seen.elapsed_s + 0.1:
        return HELD, ""
    return NOT_HELD, f"Used {times[0]:.2f} s of processor time in {seen.elapsed_s:.2f} s, at {_CPU} processors."


def _stopped_or_shrunk(seen: ProbeRun) -> tuple[str, str]:
    """If only children are killed, one after the other, the program itself ends well."""
    held = stopped_by("memory", within_s=8)(seen)
    return held if held[0] == HELD else judge_attempts(seen)


def _bounded_output(seen: ProbeRun) -> tuple[str, str]:
    kind = seen.result.error.kind if seen.result.error is not None else "none"
    kept = len(seen.result.stdout_bytes) + len(seen.result.stderr_bytes)
    if kind == "output" and seen.result.truncated and kept <= 1 << 20 and seen.elapsed_s < 5:
        return HELD, ""
    return NOT_HELD, f"Ended with {kind} after {seen.elapsed_s:.1f} s; {kept} bytes were kept."


PROBES = (
    Probe(
        "T15",
        "Daemons, stopped and busy processes end with their time",
        _SURVIVORS,
        stopped_by("timeout", within_s=4),
        {"timeout": 1},
        _survivors,
        "gone",
    ),
    Probe("T20", "Memory: heap", _HEAP, stopped_by("memory", within_s=8), {"memory": "128M"}),
    Probe(
        "T20",
        "Memory: shared, which resource limits do not count",
        _SHARED_MEMORY,
        stopped_by("memory", "runtime", within_s=8),  # without control groups, there is no memfd
        {"memory": "128M", "disk": "32M"},
    ),
    Probe(
        "T20",
        "Memory: of all processes together",
        _CHILDREN_MEMORY,
        _stopped_or_shrunk,
        {"memory": "128M", "disk": "32M"},
    ),
    Probe("T20", "Processes", _FORK_BOMB, stopped_by("processes", within_s=8), {"processes": 32}),
    Probe("T20", "Disk", _DISK, stopped_by("disk", within_s=8), {"disk": "16M"}),
    Probe("T20", "Inodes", _INODES, stopped_by("disk", within_s=15), {"disk": "16M"}),
    Probe("T20", "Output", _OUTPUT, _bounded_output, {"output": "1M", "timeout": 20}),
    Probe("T20", "Descriptors", _DESCRIPTORS),
    Probe("T20", "Processor time", _PROCESSOR, _within_processor_limit, {"cpu": _CPU}),
)
