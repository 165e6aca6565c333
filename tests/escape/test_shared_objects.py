"""T12, T20: kernel objects that are counted for a user or for the whole host, and who can use them up for whom.

One sandbox takes as many of each as it gets, and holds them.  Its neighbour then tries the same.  The table in
docs/security.md has the same rows.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche.walls.jail import cgroups, syscalls

pytestmark = pytest.mark.alone
ROOT = os.geteuid() == 0
found = cgroups.detect()
MEMORY_IS_LIMITED = found.limits("memory")
found.close()
NUMBERS = syscalls.numbers(os.uname().machine)
PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()

OWN, REFUSED, SHARED = "own", "refused", "shared"


@dataclass(frozen=True)
class Kind:
    """A kind of kernel object: an expression that takes one more of it, and who shares it."""

    take: str
    root: str  # what a neighbour has of it when root runs the sandboxes
    user: str  # and when an ordinary user does
    most: int = 300  # taken by each
    least: int = 1  # that the neighbour must get unless they are shared
    is_exhausted: bool = True  # by `most` of them
    is_memory: bool = False  # refused where no control group counts it, whoever runs the sandboxes


def raw(name: str, *arguments: object) -> str:
    return f"raw({NUMBERS[name]}, {', '.join(map(str, arguments))})"


KINDS = {
    "file leases": Kind("fcntl.fcntl(own_file(), 1024, fcntl.F_RDLCK)", REFUSED, REFUSED),
    "directory notices (dnotify)": Kind("fcntl.fcntl(os.open('/tmp', 0), fcntl.F_NOTIFY, 4)", REFUSED, REFUSED),
    "exclusive POSIX and OFD locks on shared files": Kind("lock(shared_file(), 37)", REFUSED, REFUSED),
    "flock on shared files": Kind("fcntl.flock(shared_file(), fcntl.LOCK_EX | fcntl.LOCK_NB)", SHARED, SHARED, 1),
    "inotify watches": Kind("watch_one_more()", OWN, OWN, least=300),
    "inotify instances": Kind(raw("inotify_init1", 0), OWN, OWN, least=20),
    "fanotify groups": Kind(raw("fanotify_init", 0x200, 0), REFUSED, REFUSED),
    "keys and keyrings": Kind(raw("add_key", "b'user'", "b'name'", "b'x'", 1, -3), REFUSED, REFUSED),
    "BPF programs and maps": Kind(raw("bpf", 0, "bytes(128)", 128), REFUSED, REFUSED),
    "performance events": Kind(raw("perf_event_open", "bytes(128)", 0, -1, -1, 0), REFUSED, REFUSED),
    "io_uring": Kind(raw("io_uring_setup", 1, "bytes(256)"), REFUSED, REFUSED),
    "userfaultfd": Kind(raw("userfaultfd", 1), REFUSED, REFUSED),
    "contexts of asynchronous I/O": Kind(raw("io_setup", 1, "bytes(8)"), REFUSED, REFUSED),
    "user and other namespaces": Kind(raw("unshare", 0x10000000), REFUSED, REFUSED, 1),
    "POSIX message queues": Kind("queue()", REFUSED, REFUSED),
    "System V semaphores and segments": Kind("system_v()", OWN, OWN, least=300),
    "System V queues": Kind(raw("msgget", 0, 0o600), OWN, REFUSED, least=300, is_memory=True),
    "pending signals and timers": Kind("timer()", OWN, OWN, 2000, 1000),
    "processes and threads": Kind("process()", OWN, OWN, 20, 20),
    "epoll watches": Kind("epoll()", OWN, SHARED, 5000, 5000, is_exhausted=False),
    "pipes of the usual size": Kind("full_pipe()", OWN, SHARED, 1500, 100),
    "descriptors in transit": Kind("send_descriptors()", OWN, SHARED, 50, 30),
    "buffers of TCP and UDP": Kind("full_connection()", OWN, SHARED, 4, 4, is_exhausted=False),
    "terminals": Kind("os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)", OWN, OWN, 4000, 60),
}

PROGRAM = """
import array, ctypes, fcntl, json, mmap, os, select, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
kept = []
def raw(number, *arguments):
    passed = [ctypes.c_long(a) if isinstance(a, int) else ctypes.create_string_buffer(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
    return result
def own_file(): return os.open("/tmp/own", os.O_RDONLY | os.O_CREAT)
def shared_file(): return os.open("/usr/bin/env", os.O_RDONLY)
def lock(fd, command): return fcntl.fcntl(fd, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
watcher = []
def watch_one_more():
    watcher or watcher.append(raw(INOTIFY_INIT1, 0))
    path = f"/tmp/watched-{len(kept)}"
    os.mkdir(path)
    if libc.inotify_add_watch(watcher[0], path.encode(), 2) < 0: raise OSError
def queue(): return raw(MQ_OPEN, b"q%d" % len(kept), os.O_CREAT | os.O_RDWR, 0o600, 0)
def system_v():
    if min(libc.semget(0, 1, 0o600), libc.shmget(0, 4096, 0o600)) < 0: raise OSError
def timer():
    if libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())): raise OSError
def process():
    if os.fork() == 0: signal.pause()
def epoll():
    if not kept or len(kept) % 100 == 0: watcher.append(select.epoll())
    number = len(kept) % 100
    if len(pipes) <= number: pipes.append(os.pipe()[0])
    watcher[-1].register(pipes[number])
pipes = []
def full_pipe():
    ends = os.pipe()
    if fcntl.fcntl(ends[0], 1032) < 65536: raise OSError  # F_GETPIPE_SZ
    return ends
def send_descriptors():
    ends = socket.socketpair()
    ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 253))])
    return ends
def full_connection():
    server = socket.create_server(("127.0.0.1", 0))
    ends = [socket.create_connection(server.getsockname()), server.accept()[0]]
    ends[0].setblocking(False)
    ends[0].send(bytes(1 << 20))
    return ends
counts = {}
for name, (take, most) in json.loads(sys.argv[1]).items():
    counted = mmap.mmap(-1, 4096)
    if os.fork() == 0:
        code = compile(take, name, "eval")
        try:
            while len(kept) < most: kept.append(eval(code))
        except OSError: pass
        counted[:8] = struct.pack("ii", 1, len(kept))
        while True: signal.pause()
    while not counted[0]: time.sleep(0.002)
    counts[name] = struct.unpack("ii", counted[:8])[1]
print(json.dumps(counts), flush=True)
sys.stdin.read()
"""
PROGRAM = PROGRAM.replace("INOTIFY_INIT1", str(NUMBERS["inotify_init1"])).replace("MQ_OPEN", str(NUMBERS["mq_open"]))


def taken_by_each(names: Any, wall: Any = None) -> tuple[dict[str, int], dict[str, int]]:
    """What one sandbox could take, and what its neighbour then still got."""
    args = [json.dumps({name: [KINDS[name].take, KINDS[name].most] for name in names})]
    with cloche.Sandbox(wall=wall, processes=120) as greedy, cloche.Sandbox(wall=wall, processes=120) as neighbour:
        counts = []
        for box in (greedy, neighbour):
            running = box.start_program(PROGRAM, args=args, timeout=60)
            while getattr(event := running.next_event(), "kind", "") != "stdout":
                assert event is not None, running.wait()
            counts.append(json.loads(event.data))
    return counts[0], counts[1]


def test_one_sandbox_cannot_use_up_what_another_needs() -> None:
    first, second = taken_by_each(KINDS)
    for name, kind in KINDS.items():
        state = kind.root if (MEMORY_IS_LIMITED if kind.is_memory else ROOT) else kind.user
        if state == REFUSED:
            assert (first[name], second[name]) == (0, 0), name
        elif state == OWN:
            assert second[name] >= kind.least, (name, first[name], second[name])
        elif kind.is_exhausted:  # the proof that this finds what is shared
            assert second[name] < min(first[name], kind.least), (name, first[name], second[name])
    assert cloche.run("print(1)").stdout == "1\n"  # whatever is shared, sandboxes still work


@pytest.mark.parametrize("name", KINDS)
def test_the_page_has_the_same_table(name: str) -> None:
    assert f"| {name} | {KINDS[name].root} | {KINDS[name].user} |" in PAGE


def test_without_the_filters_check_there_are_leases(attack: Any) -> None:
    first, _ = taken_by_each(["file leases"], attack.jail("call:fcntl"))
    assert first["file leases"] > 0


def test_terminals_without_a_bound_would_be_shared_by_all(attack: Any) -> None:
    _, second = taken_by_each(["terminals"], attack.jail("terminals"))
    assert second["terminals"] == 0


FULL_SOCKETS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
kept, held, most = [], 0, 100 << 20
while held < most and len(kept) < 800:
    kept += [socket.create_connection(server.getsockname()), server.accept()[0]]
    kept[-2].setblocking(False)
    try:
        while held < most: held += kept[-2].send(bytes(1 << 20))
    except BlockingIOError: pass
print(held >> 20)
"""


@pytest.mark.skipif(not MEMORY_IS_LIMITED, reason="the buffers of an ordinary user's sockets are not limited")
def test_the_buffers_of_sockets_have_a_limit(attack: Any) -> None:
    # The kernel has one bound for the buffers of all TCP sockets of the host, whatever their network namespace.
    limits: Any = {"memory": "64M", "disk": "16M", "timeout": 20}
    result = cloche.run(FULL_SOCKETS, **limits)
    if result.error is None:  # version 2 counts them as memory
        assert int(result.stdout) < 64
    else:
        assert result.error.kind == "memory", (result.error, result.stderr[-2000:])
    unlimited = cloche.run(FULL_SOCKETS, wall=attack.jail("cgroups"), **limits)
    assert unlimited.stdout == "100\n", unlimited.stderr[-2000:]
