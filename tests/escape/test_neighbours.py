"""T12: two sandboxes share nothing that can be written, and cannot use up what the other needs."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path

import pytest
from tests.waiting import eventually

import cloche
from cloche.walls.jail import syscalls

NUMBERS = syscalls.numbers(os.uname().machine)

pytestmark = pytest.mark.alone
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="run by a user, all sandboxes are that user's")

LEAVE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
for folder in ("/tmp", "/dev/shm", "/sandbox", "/sandbox/data", "/var/tmp", "/tmp/.config/matplotlib"):
    open(folder + "/left", "w").write("secret")
print("shm", libc.shmget(4711, 4096, 0o1666), flush=True)
print("queue", libc.msgget(4711, 0o1666) >= 0, flush=True)
print("semaphore", libc.semget(4711, 1, 0o1666) >= 0, flush=True)
try:
    ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None)
except OSError:
    pass
unix = socket.socket(socket.AF_UNIX); unix.bind("\\0left"); unix.listen()
tcp = socket.create_server(("127.0.0.1", 5555))
os.environ["LEFT"] = "secret"
print("ready", flush=True)
sys.stdin.read()
"""

FIND = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for folder in ("/tmp", "/dev/shm", "/sandbox", "/sandbox/data", "/var/tmp", "/tmp/.config/matplotlib"):
    if os.path.exists(folder + "/left"): print(folder)
if libc.shmget(4711, 0, 0) >= 0: print("shm")
if libc.msgget(4711, 0) >= 0: print("queue")
if libc.semget(4711, 0, 0) >= 0: print("semaphore")
if ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_RDONLY) >= 0: print("posix queue")
for family, address in ((socket.AF_UNIX, "\\0left"), (socket.AF_INET, ("127.0.0.1", 5555))):
    try:
        socket.socket(family).connect(address)
        print(address)
    except OSError:
        pass
print(len([pid for pid in os.listdir("/proc") if pid.isdigit()]), "processes")
"""


def test_nothing_of_one_is_seen_by_the_other():
    with cloche.Sandbox() as one, cloche.Sandbox() as other:
        running = one.start_program(LEAVE)
        while "ready" not in str(running.next_event()):
            pass
        assert other.run_program(FIND).stdout == "2 processes\n"
        assert len(one.run_program(FIND).stdout.splitlines()) >= 11  # the proof: inside, all of it can be found
        running.kill()


def test_a_workspace_is_gone_with_its_sandbox():
    with cloche.Sandbox() as one:
        one.files.write("/tmp/left", b"x")
        one.files.write("/sandbox/left", b"x")
    with cloche.Sandbox() as other:
        assert other.run_program(FIND).stdout == "2 processes\n"


def host_processes(mark: str) -> list[Path]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(Path(f"/proc/{pid}"))
        except OSError:
            continue
    return found


def sleeping_processes(mark: str) -> list[Path]:
    return [process for process in host_processes(mark) if "sleep" in (process / "comm").read_text()]


@ROOT
def test_no_two_sandboxes_share_a_uid_of_the_host():
    marks = ["mark-" + secrets.token_hex(8) for _ in range(3)]
    boxes = [cloche.Sandbox() for _ in marks]
    uids: list[int] = []
    for box, mark in zip(boxes, marks, strict=True):
        box.commands.start(["bash", "-c", f"exec -a {mark} sleep 60"])
    for mark in marks:
        found = eventually(partial(sleeping_processes, mark))
        status = dict(line.split(":", 1) for line in (found[0] / "status").read_text().splitlines() if ":" in line)
        uids += {int(text) for text in status["Uid"].split()} | {int(text) for text in status["Gid"].split()}
        assert status["Groups"].split() == []
    for box in boxes:
        box.close()
    assert len(uids) == len(set(uids)) == 3
    assert all(uid >= 0x70000000 for uid in uids)


INOTIFY = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.inotify_init1(0) >= 0:
    count += 1
print(count, flush=True)
sys.stdin.read()
"""


def inotify_left(wall: object = None) -> int:
    """How many a neighbour can still have while one takes all that it can get."""
    with cloche.Sandbox(wall=wall) as greedy:  # type: ignore[arg-type]
        running = greedy.start_program(INOTIFY)
        while getattr(running.next_event(), "kind", "") != "stdout":
            pass
        left = int(cloche.run(INOTIFY, wall=wall).stdout)  # type: ignore[arg-type]
        running.kill()
    return left


def test_one_cannot_use_up_the_inotify_instances_of_all(attack):
    assert inotify_left() >= 32
    if os.geteuid() == 0:
        assert inotify_left(attack.jail("uid")) == 0


SIGNALS = (
    f"RT_SIGQUEUEINFO = {NUMBERS['rt_sigqueueinfo']}"
    + """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
info, count = (ctypes.c_int * 32)(), 0
info[0], info[2] = signal.SIGRTMIN, -1
number = ctypes.c_long(RT_SIGQUEUEINFO)
while libc.syscall(number, os.getpid(), int(signal.SIGRTMIN), info) == 0:
    count += 1
print(count, flush=True)
sys.stdin.read()
"""
)


def test_pending_signals_are_each_ones_own():
    with cloche.Sandbox() as greedy:
        running = greedy.start_program(SIGNALS)
        while getattr(event := running.next_event(), "kind", "") != "stdout":
            pass
        taken = int(event.data)
        assert 0 < taken <= 4096
        assert int(cloche.run(SIGNALS).stdout) >= taken - 10
        running.kill()


# What the kernel has counted in a network namespace since it was made, but for what is counted for all of them.
COUNTED = "print(*(open(f'/proc/net/{name}').read() for name in ('dev', 'snmp', 'snmp6', 'netstat')))"
TALK = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"x"), daemon=True).start()
print(socket.create_connection(server.getsockname()).recv(1))
"""
KNOCK = """
import socket
try: socket.create_connection(("192.0.2.1", 80), 1)
except OSError as problem: print(problem.strerror)
"""
LABELS = "print(open('/proc/net/ip6_flowlabel').read())"  # numbers that a program has chosen, of 20 bits each
LABEL = """
import socket, struct
there = socket.inet_pton(socket.AF_INET6, "::1")
request = there + struct.pack("!I", 0x12345) + struct.pack("=BBHHHI", 0, 255, 1, 6, 6, 0)  # to stay for six seconds
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).setsockopt(socket.IPPROTO_IPV6, 32, request)  # IPV6_FLOWLABEL_MGR
print("12345" in open("/proc/net/ip6_flowlabel").read())
"""
WHERE = "import os; print(os.readlink('/proc/self/ns/net'))"


@pytest.mark.parametrize(("use", "printed"), [(TALK, "b'x'"), (KNOCK, "Network is unreachable")])
def test_a_network_that_somebody_has_used_is_nobodys_next(attack, use, printed):
    attack(WHERE, "nothing")  # one is there to be used again
    unused = attack(COUNTED, "nothing")
    for _ in range(3):
        assert attack(use, "nothing") == printed
        assert attack(COUNTED, "nothing") == unused
    # The same without a look at what was done there.
    attack(WHERE, "unused network")
    assert attack(use, "unused network") == printed
    assert any(attack(COUNTED, "unused network") != unused for _ in range(3))


@pytest.mark.skipif(not os.path.exists("/proc/net/ip6_flowlabel"), reason="this kernel has no IPv6")
def test_what_lingers_in_a_network_without_a_packet_is_seen_by_nobody_else(attack):
    def is_seen_later(without: str) -> bool:
        """By one of many, as one does not know which of them is given the network of the one before."""
        found = False
        for _ in range(4):
            assert attack(LABEL, without) == "True"
            found |= any("12345" in attack(LABELS, without) for _ in range(4))
        return found

    assert not is_seen_later("nothing")
    assert is_seen_later("unused network")


def test_a_network_that_nobody_has_used_serves_again(attack):
    places = [attack(WHERE, "nothing") for _ in range(10)]
    assert len(set(places)) < len(places)


LOCK_ALL = """
import fcntl, os, sys
count = 0
def lock_below(place, most):
    global count
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            count += 1
            if count >= most: return
for part, place in enumerate(("/usr/share/fonts", "/etc/fonts", "/usr/bin", "/opt/python/lib", "/opt/env/lib"), 1):
    lock_below(place, part * 1600)
print(count, flush=True)
sys.stdin.read()
"""


def test_nobody_waits_for_a_lock_on_the_systems_files():
    """A file that may only be read can be locked: docs/decisions/0022-shared-kernel-objects.md."""
    uses = {
        "python": "import sympy, pandas, sqlite3, ssl\nprint(sympy.Integer(1))",
        "bash": "perl -e 'print 1' && fc-list > /dev/null; echo",
        "javascript": "require('crypto'); console.log(1)",
    }
    with cloche.Sandbox() as greedy:
        running = greedy.start_program(LOCK_ALL, timeout=60)
        while getattr(event := running.next_event(), "kind", "") != "stdout":
            assert event is not None
        assert int(event.data) > 1000
        for language, code in uses.items():
            result = cloche.run(code, language=language, timeout=20)
            assert result.stdout.startswith("1"), (language, result)
        figure = "import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig('/tmp/x.png'); print(1)"
        assert cloche.run(figure, timeout=20).stdout == "1\n"
        running.kill()
