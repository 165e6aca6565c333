"""The jail without root: what was tested as root holds for an ordinary user, and for the root of a container.

Run as root these tests become somebody else; run by an ordinary user the others are that test already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.network import outside
from tests.store import postgresql

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the tests themselves")

HERE = Path(__file__).parent
TESTS = HERE.parent


def run_as(who: str, *command: str, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(HERE / "as_another.py"), who, sys.executable, *command]
    # The folder of packages is one user's own.
    env = {name: value for name, value in os.environ.items() if name != "CLOCHE_PACKAGES_FOLDER"}
    return subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=timeout_s, env=env)


def run_tests_as_user(*tests: str) -> None:
    with TemporaryDirectory(
        prefix="pytest-as-user-"
    ) as folder:  # pytest's own belongs to root, and is closed to others
        os.chmod(folder, 0o777)
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder}/temp", f"--rootdir={TESTS.parent}"]
        options += ["-c", str(TESTS.parent / "pyproject.toml")]
        done = run_as("user", "-m", "pytest", *options, *(str(TESTS / test) for test in tests))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.timeout(300)
def test_the_same_holds_for_an_ordinary_user() -> None:
    run_tests_as_user(
        *("escape/test_host_is_not_there.py", "escape/test_walls_stay_up.py", "escape/test_the_way_out.py"),
        "escape/test_own_root.py",
        *("escape/test_the_agent.py", "escape/test_requests_of_others.py", "sessions/test_contexts.py"),
        "languages/test_ahead.py",
        "service/test_metering.py::test_the_time_of_a_sandbox_that_ends_at_once_is_charged",
        *(
            f"service/test_metering.py::test_endless_work_is_charged_and_stopped[{way}]"
            for way in ("programs.run", "many short processes", "a daemon of a cell")
        ),
    )


@pytest.mark.timeout(300)
def test_packages_are_the_same_for_an_ordinary_user() -> None:
    run_tests_as_user(
        "escape/test_layers.py",
        "sessions/test_fresh_kernels.py",
        *(
            f"packages/test_installs.py::test_{claim}"
            for claim in ("commands_and_terminals_install", "restoring_a_checkpoint_undoes_an_install")
        ),
    )


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_the_same_holds_for_an_ordinary_user_who_has_the_host_to_himself() -> None:
    run_tests_as_user(
        "escape/test_neighbours.py",
        "escape/test_shared_objects.py",
        "limits/test_each_limit.py::test_a_limit_is_told_as_that_limit_and_soon",
        "host/test_sudden_death.py",
    )


@pytest.mark.timeout(300)
def test_clients_reach_what_a_policy_allows_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    outside.clients()  # a user cannot install them here
    with outside.started() as world:  # nor listen on port 443
        address = json.loads(world)["address"]
        with contextmanager(postgresql.running)(address) as database:
            monkeypatch.setenv(outside.RUNNING, world)
            monkeypatch.setenv(outside.DATABASE, str(database.port))
            run_tests_as_user("network/test_clients.py", "network/test_ways_around.py", "network/test_lifetime.py")


UNMAPPED = """
import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail.nursery_client import Nurseries
hoards = [
    "import os\\nfd = os.memfd_create('m')\\nfor _ in range(50): os.write(fd, bytes(4 << 20))",
    "import ctypes\\nlibc = ctypes.CDLL(None)\\nlibc.shmat.restype = ctypes.c_void_p\\n"
    "n = libc.shmget(0, 200 << 20, 0o600)\\nassert n >= 0\\nctypes.memset(libc.shmat(n, None, 0), 1, 200 << 20)",
    "import mmap\\nm = mmap.mmap(-1, 200 << 20)\\nfor _ in range(50): m.write(bytes(4 << 20))\\n"
    "import time; time.sleep(0.5)",
    # One child killed is enough for the others to fit, so the parent fails with the first one.
    "import os, signal, sys, time\\nready, tell = os.pipe()\\n"
    "signal.signal(signal.SIGCHLD, lambda *_: sys.exit(1))\\n"
    "for _ in range(15):\\n"
    "    if os.fork() == 0: kept = bytearray(24 << 20); os.write(tell, b'x'); signal.pause()\\n"
    "for _ in range(15): os.read(ready, 1)\\n"
    "time.sleep(float(os.environ['HOLD']))",
    # Page tables: 4 KiB for each 2 MiB of which one byte is read, and no page of the program's own.
    "import mmap, time\\nm = mmap.mmap(-1, 200 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)\\n"
    "for at in range(0, len(m), 2 << 20): m[at]\\ntime.sleep(1)",
    "import ctypes\\nlibc = ctypes.CDLL(None)\\nfor _ in range(100): assert libc.semget(0, 32000, 0o600) >= 0",
    "import ctypes\\nassert ctypes.CDLL(None).msgget(0, 0o600) >= 0",
    "import ctypes, os\\npage = ctypes.create_string_buffer(4096)\\n"
    "vector = (ctypes.c_size_t * 2)(ctypes.addressof(page), 4096)\\n"
    "assert ctypes.CDLL(None).vmsplice(os.pipe()[1], vector, 1, 0) >= 0",
    "import socket\\nsocket.socket().setsockopt(socket.SOL_SOCKET, 60, 1)",  # SO_ZEROCOPY
]
uncounted = Nurseries(settings.load(), frozenset({"cgroups"}))
for wall, hold in ((None, "20"), (Jail(uncounted), "0")):
    results = [cloche.run(code, memory="64M", env={"HOLD": hold}, wall=wall) for code in hoards]
    print(*(result.error.kind if result.error else "passed" for result in results))
uncounted.close()
"""


def test_without_control_groups_memory_is_counted_from_outside():
    done = run_as("user", "-c", UNMAPPED)
    # The proof is the second line, of a jail that counts nothing.
    assert done.stdout == (
        "runtime runtime memory memory memory" + " runtime" * 4 + "\n" + "passed " * 8 + "passed\n"
    ), done.stderr[-3000:]


@pytest.mark.parametrize("who", ["user", "one-id"])
def test_a_host_that_cannot_pause_a_sandbox_refuses_and_keeps_it(who):
    code = """
import cloche
with cloche.Sandbox() as box, cloche.Sandbox() as other:
    box.run("x = 41"), other.run("x = 42")
    try:
        box.pause()
        box.resume()
    except cloche.Refused as problem:
        print(problem.message)
    print(box.run("x").text, other.run("x").text)
"""
    done = run_as(who, "-c", code)
    assert done.stdout in ("41 42\n", "Sandboxes cannot be paused here: there are no control groups.\n41 42\n"), done


@pytest.mark.parametrize("who", ["user", "ids", "one-id"])
def test_the_walls_stand_whoever_starts_them(who):
    code = """
import cloche, os
assert cloche.run("import os; print(os.getuid(), len(os.listdir('/proc')) > 0)").stdout == "1000 True\\n"
kinds = [
    cloche.run("kept = [b'x' * (1 << 20) for _ in range(1000)]", memory="64M").error.kind,
    cloche.run("import os, time\\nwhile True:\\n  if os.fork() == 0: time.sleep(9)", processes=16).error.kind,
    cloche.run("open('x', 'wb').write(bytes(32 << 20))", disk="16M").error.kind,
    cloche.run("while True: print('x' * 99)", output="1M").error.kind,
    cloche.run("while True: pass", timeout=0.5).error.kind,
    cloche.run("import ctypes, os; os._exit(ctypes.CDLL(None).unshare(0x10000000) == 0)").error,
]
print(*kinds)
"""
    done = run_as(who, "-c", code)
    assert done.stdout == "memory processes disk output timeout None\n", done.stderr[-3000:]
