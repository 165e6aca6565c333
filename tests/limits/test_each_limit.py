"""Every limit, exceeded on its own: its own kind of error, soon, while a neighbour goes on answering."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail import cgroups
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = pytest.mark.alone

with_groups = cgroups.detect()
USER = not with_groups.limits("memory")  # then there are resource limits alone, which know less
with_groups.close()


@dataclass(frozen=True)
class Excess:
    """A program that wants too much of something, and what must come of it."""

    code: str
    kinds: tuple[str, ...]
    limits: dict[str, Any] = field(default_factory=dict)
    within_s: float = 6.0  # mostly the time that it takes to get there


MEMORY = {"memory": "64M", "timeout": 8}
SHARED = "import mmap, os\nkept = []\nwhile True:\n    {make}\n    m.write(b'x' * (4 << 20)); kept.append(m)"
REFUSED_WITHOUT_GROUPS = ("memory", "runtime") if USER else ("memory",)  # see counted_group.py

EXCESSES = {
    "time, asleep": Excess("import time; time.sleep(60)", ("timeout",), {"timeout": 0.5}, 1.5),
    "time, busy": Excess("while True: pass", ("timeout",), {"timeout": 0.5}, 1.5),
    "time, in C": Excess("sum(range(10**13))", ("timeout",), {"timeout": 0.5}, 1.5),
    "time, in a giant power": Excess("10 ** 10 ** 8 ** 2", ("timeout", "memory"), {"timeout": 0.5}, 1.5),
    "time, in a regular expression": Excess(
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')", ("timeout",), {"timeout": 0.5}, 1.5
    ),
    "memory, on the heap": Excess("kept = []\nwhile True: kept.append(bytes(1 << 20))", ("memory",), MEMORY),
    "memory, at once": Excess("b'x' * (8 << 30)", ("memory",), MEMORY),
    "memory, in small objects": Excess(
        "kept = []\nwhile True: kept.append([object() for _ in range(1000)])", ("memory",), MEMORY
    ),
    "memory, mapped": Excess(
        "import mmap\nkept = []\nwhile True:\n    m = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "    m.write(b'x' * (4 << 20)); kept.append(m)",
        ("memory",),
        MEMORY,
    ),
    "memory, mapped and shared": Excess(SHARED.format(make="m = mmap.mmap(-1, 4 << 20)"), ("memory",), MEMORY),
    "memory, in files without a name": Excess(
        "import os\nwhile True:\n    fd = os.memfd_create('m'); os.write(fd, b'x' * (4 << 20))",
        REFUSED_WITHOUT_GROUPS,
        MEMORY,
    ),
    "memory, System V": Excess(
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\nwhile True:\n"
        "    n = libc.shmget(0, 4 << 20, 0o600)\n    if n < 0: raise OSError\n"
        "    at = libc.shmat(n, None, 0)\n    ctypes.memset(at, 1, 4 << 20)",
        REFUSED_WITHOUT_GROUPS,
        MEMORY,
    ),
    "memory, by many processes": Excess(
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0: break\nkept = b'x' * (24 << 20)\ntime.sleep(60)",
        ("memory",),
        MEMORY,
    ),
    "memory, shared at first": Excess(
        "import os, time\nkept = bytearray(40 << 20)\nfor _ in range(3):\n    if os.fork() == 0:\n"
        "        for at in range(0, len(kept), 4096): kept[at] = 1\n        break\ntime.sleep(60)",
        ("memory",),
        MEMORY,
    ),
    "output": Excess("while True: print('x' * 1000)", ("output",), {"output": "1M"}),
    "output, on standard error": Excess(
        "import sys\nwhile True: sys.stderr.write('x' * 1000)", ("output",), {"output": "1M"}
    ),
    "output, without an end of line": Excess(
        "import os\nwhile True: os.write(1, b'x' * 65536)", ("output",), {"output": "1M"}
    ),
    "output, from a child": Excess("import subprocess; subprocess.run('yes')", ("output",), {"output": "1M"}),
    "processes, forked": Excess(
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)",
        ("processes",),
        {"processes": 16},
    ),
    "processes, threads": Excess(
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        ("processes",),
        {"processes": 16},
    ),
    "processes, a bomb": Excess(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        ("timeout", "processes"),
        {"processes": 32, "timeout": 1},
        2.5,
    ),
    "disk": Excess("f = open('/sandbox/x', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("disk",), {"disk": "16M"}),
    "disk, in /tmp": Excess(
        "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("disk",), {"disk": "16M"}
    ),
    "disk, in the root": Excess(
        "import os\nos.mkdir('/workspace')\nf = open('/workspace/x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
        ("disk",),
        {"disk": "16M"},
    ),
    "disk, in /dev/shm": Excess(
        "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("disk",), {"disk": "16M"}
    ),
    "files": Excess("n = 0\nwhile True: open(f'/sandbox/{n}', 'w').close(); n += 1", ("disk",), {"disk": "4M"}),
    "folders": Excess("import os\nn = 0\nwhile True: os.mkdir(f'/tmp/{n}'); n += 1", ("disk",), {"disk": "4M"}),
    "descriptors": Excess("import os\nwhile True: os.dup(1)", ("runtime",)),
    "pipes": Excess("import os\nwhile True: os.pipe()", ("runtime",)),
    "full pipes": Excess(
        "import os, fcntl\nwhile True:\n    r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20)\n"
        "    os.write(w, bytes(1 << 20))",
        ("runtime", "memory"),
        {"timeout": 10},
    ),
    "sockets": Excess("import socket\nkept = []\nwhile True: kept.append(socket.socket())", ("runtime",)),
    "full sockets": Excess(
        "import socket\nkept = []\nwhile True:\n    a, b = socket.socketpair(); kept += [a, b]; a.setblocking(False)\n"
        "    try:\n        while True: a.send(bytes(65536))\n    except BlockingIOError: pass",
        ("runtime", "memory"),
        {"timeout": 15},
        15,
    ),
    "inotify": Excess(
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nwhile libc.inotify_init1(0) >= 0: pass\n"
        "raise OSError(ctypes.get_errno(), 'no more')",
        ("runtime",),
    ),
    "timers": Excess(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nt = ctypes.c_void_p()\n"
        "while libc.timer_create(1, None, ctypes.byref(t)) == 0: pass\nraise OSError(ctypes.get_errno(), 'no more')",
        ("runtime",),
    ),
    "recursion": Excess("def f(): f()\nf()", ("runtime",)),
    "recursion, unlimited": Excess(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        ("killed", "memory", "runtime"),
        {"memory": "128M"},
    ),
    "a giant exception": Excess("raise ValueError('x' * (50 << 20))", ("runtime", "output"), {"output": "1M"}),
    "a slow exception": Excess(
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        ("timeout",),
        {"timeout": 0.5},
        1.5,
    ),
    "nested brackets": Excess("(" * 100_000 + ")" * 100_000, ("syntax", "memory", "killed", "runtime")),
    "nested calls": Excess("f" + "()" * 200_000, ("syntax", "memory", "killed", "runtime"), {"timeout": 10}),
    "a giant constant": Excess(
        "x = " + "1+" * 300_000 + "1", ("syntax", "memory", "killed", "runtime"), {"timeout": 10}
    ),
    "a folded constant": Excess("x = ((('a' * 4000) * 4000) * 4000) * 400", ("memory",), MEMORY),
}


@pytest.mark.parametrize("what", EXCESSES)
def test_a_limit_is_told_as_that_limit_and_soon(what):
    excess = EXCESSES[what]
    begin = time.monotonic()
    result = cloche.run(excess.code, **{"timeout": 8, **excess.limits})
    took = time.monotonic() - begin
    assert result.error is not None
    assert result.error.kind in excess.kinds, (result.error, result.stderr[-500:])
    assert result.error.hint
    assert took < excess.within_s
    if result.error.kind == "output":
        assert result.truncated
        assert len(result.stdout_bytes) + len(result.stderr_bytes) == 1 << 20


def test_within_the_limits_all_goes_well():
    code = """
import threading, os
kept = b"x" * (24 << 20)
open("/sandbox/x", "wb").write(bytes(8 << 20))
threads = [threading.Thread(target=len, args=("",)) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print("x" * 500_000)
"""
    result = cloche.run(code, memory="64M", disk="16M", processes=16, output="1M", timeout=5)
    assert result.error is None
    assert len(result.stdout) == 500_001


def test_files_do_not_count_as_memory():
    code = "f = open('/sandbox/x', 'wb')\nfor _ in range(200): f.write(bytes(1 << 20))\nprint('written')"
    assert cloche.run(code, memory="64M", disk="256M").stdout == "written\n"


def test_a_page_cache_full_of_the_systems_files_does_not_count_as_memory():
    code = """
import os
total = 0
for folder, _, names in os.walk("/usr/lib"):
    for name in names:
        try:
            total += len(open(os.path.join(folder, name), "rb").read(4 << 20))
        except OSError:
            pass
    if total > 200 << 20:
        break
print(total > 64 << 20)
"""
    assert cloche.run(code, memory="64M", timeout=20).stdout == "True\n"


# The same, seen by a neighbour.

HEAVY: dict[str, tuple[str, dict[str, Any]]] = {
    "a busy loop": ("while True: pass", {"timeout": 1.2}),
    "a fork bomb": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", {"timeout": 1.2}),
    "a thread bomb": (
        "import threading\nwhile True:\n"
        "    try: threading.Thread(target=sum, args=(range(10**6),), daemon=True).start()\n"
        "    except RuntimeError: pass",
        {"timeout": 1.2},
    ),
    "memory, over and over": ("while True:\n    kept = bytearray(b'x') * (200 << 20)", {"timeout": 1.2}),
    "a flood of lines on both streams": (
        "import sys\nwhile True: print('x'); print('y', file=sys.stderr)",
        {"timeout": 1.2, "output": "256M"},
    ),
    "a disk that fills and empties": (
        "import os\nf = os.open('/tmp/x', os.O_WRONLY | os.O_CREAT)\nwhile True:\n"
        "    try: os.write(f, bytes(1 << 20))\n    except OSError: os.ftruncate(f, 0); os.lseek(f, 0, 0)",
        {"timeout": 1.2, "disk": "256M"},
    ),
    "a storm of system calls": ("import os\nwhile True: os.stat('/'); os.getppid()", {"timeout": 1.2}),
    "a storm of programs": ("while true; do /bin/true; done", {"timeout": 1.2, "language": "bash"}),
}


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Callable[[int], float]]:
    with cloche.Sandbox() as box:

        def median(rounds: int) -> float:
            took = []
            for _ in range(rounds):
                begin = time.monotonic()
                assert box.run_program("print(1)").stdout == "1\n"
                took.append(time.monotonic() - begin)
            return statistics.median(took)

        median(5)
        yield median


@pytest.mark.parametrize("what", HEAVY)
def test_a_neighbour_keeps_answering(what, neighbour, record_property):
    code, options = HEAVY[what]
    usual = neighbour(15)
    with ThreadPoolExecutor(1) as pool:
        heavy = pool.submit(lambda: cloche.run(code, **options))
        time.sleep(0.4)  # until it is at it
        during = neighbour(15)
        result = heavy.result()
    record_property("ratio", f"{during / usual:.2f}")
    print(f"{what}: {usual * 1000:.1f} ms usually, {during * 1000:.1f} ms beside it")
    assert result.error is not None
    assert during < 5 * usual + 0.05


def test_a_neighbour_keeps_answering_beside_a_flood_that_is_thrown_away(neighbour):
    usual = neighbour(15)
    with cloche.Sandbox() as box, ThreadPoolExecutor(1) as pool:
        flood = box.commands.start("cat /dev/zero", timeout=1.2)  # its output is kept up to the limit, then dropped
        end = pool.submit(flood.wait)
        during = neighbour(15)
        result = end.result()
    assert result.error.kind == "timeout"
    assert result.truncated
    assert len(result.stdout_bytes) == 10 << 20
    assert during < 5 * usual + 0.05


@pytest.mark.skipif(USER, reason="without control groups nobody limits the processor")
def test_half_a_processor_is_half_a_processor():
    code = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    half = cloche.run(code, cpu=0.5)
    assert 0.3 <= half.cpu_time <= 0.7
    whole = cloche.run(code, cpu=1.0)
    assert whole.cpu_time > half.cpu_time


@pytest.mark.skipif(USER, reason="without control groups nobody limits the processor")
def test_more_processes_get_no_more_than_its_share():
    code = """
import os, time
end = time.monotonic() + 1.5
for _ in range(4):
    if os.fork() == 0:
        break
while time.monotonic() < end: pass
"""
    assert cloche.run(code, cpu=0.5).cpu_time <= 1.2


def test_memory_is_limited_while_the_nursery_still_imports() -> None:
    """Three times anew: a nursery for sessions serves at once, and then takes a second to import libraries."""
    for _ in range(3):
        nurseries = Nurseries(settings.load())
        try:
            with cloche.Sandbox(memory="100M", wall=Jail(nurseries)) as box:
                result = box.run_program("x = bytearray(300 << 20)")
        finally:
            nurseries.close()
        assert result.error is not None
        assert result.error.kind == "memory"
