"""T12: a sandbox that gets the host user of an earlier one finds nothing of it, and as much of everything.

Host users are numbered by the pid of a sandbox, so the number comes back when pids have gone round.  The test has the
kernel give the same pid again.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually, processes_called

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has a host user for each sandbox"),
]
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 60

# Takes as much of each object that the kernel counts by user as it gets, and prints how much that was.
TAKE = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def count(take, most=400):
    taken = 0
    while taken < most and take() >= 0: taken += 1
    return taken
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
watcher = libc.inotify_init1(0)
key = libc.syscall(248, b"user", b"left", b"secret", 6, -4)  # add_key to the user's keyring
found = libc.syscall(249, b"user", b"left", None, -4)  # request_key
print({
    "inotify instances": count(lambda: libc.inotify_init1(0)),
    "pending signals": count(lambda: libc.sigqueue(os.getpid(), signal.SIGRTMIN, 0), 5000),
    "pipes": count(lambda: 0 if os.pipe() else -1, 100),
    "locked memory": libc.mlock(ctypes.create_string_buffer(1 << 16), 1 << 16),
    "keys": (key, found),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "messages": libc.syscall(240, b"left", 0o102, 0o600, None),
    "shared memory": os.listdir("/dev/shm"),
})
"""
NAMED = "import ctypes, time\nctypes.CDLL(None).prctl(15, {name!r}.encode())\ntime.sleep(600)"
HOARD = """
import ctypes, os
libc = ctypes.CDLL(None)
os.setresuid({user}, {user}, {user})
while libc.inotify_init1(0) >= 0: pass
print("taken", flush=True)
input()
"""
LEAVE = "import os\nif os.fork() == 0:\n    os.setsid()\n"


@pytest.fixture
def wall() -> Iterator[Jail]:
    nurseries = Nurseries(Settings(settings.load().environment, warm=False))
    yield Jail(nurseries)
    nurseries.close()


def host_user(box: cloche.Sandbox) -> int:
    name = f"who-{secrets.token_hex(4)}"
    process = box.commands.start(["python3", "-c", NAMED.format(name=name)])
    (pid,) = eventually(lambda: processes_called(name))
    user = Path(f"/proc/{pid}").stat().st_uid
    process.kill()
    return user


def sandbox_of(user: int, first: int, wall: Jail) -> cloche.Sandbox:
    """Make sandboxes until one has this host user; `first` is the pid that makes it."""
    for _ in range(TRIES):
        LAST_PID.write_text(str(first - 4))
        box = cloche.Sandbox(wall=wall)
        if host_user(box) == user:
            return box
        box.close()
    pytest.fail(f"none of {TRIES} sandboxes got the host user again")


def taken(box: cloche.Sandbox) -> str:
    result = box.run_program(TAKE)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_next_sandbox_of_a_host_user_finds_nothing_and_gets_everything(wall: Jail) -> None:
    with cloche.Sandbox(wall=wall) as fresh:
        usual = taken(fresh)
    with cloche.Sandbox(wall=wall) as box:
        user = host_user(box)
        pid = user - 0x70000000
        box.run_program(TAKE + LEAVE + "    import time; time.sleep(600)\nopen('/dev/shm/left', 'w').write('secret')")
    with sandbox_of(user, pid, wall) as again:
        assert taken(again) == usual
        # The proof: while anything of the user's is left on the host, the sandbox gets less.
        command = [sys.executable, "-c", HOARD.format(user=user)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as left:
            assert left.stdout is not None
            left.stdout.readline()
            assert taken(again) != usual
            left.communicate("\n")
