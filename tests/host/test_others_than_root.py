"""The jail without root: what was tested as root holds for an ordinary user, and for the root of a container.

Run as root these tests become somebody else; run by an ordinary user the others are that test already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the tests themselves")

HERE = Path(__file__).parent
TESTS = HERE.parent


def run_as(who: str, *command: str, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(HERE / "as_another.py"), who, sys.executable, *command]
    return subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=timeout_s)


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
        *("escape/test_the_agent.py", "sessions/test_contexts.py", "languages/test_ahead.py"),
    )


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_the_same_holds_for_an_ordinary_user_who_has_the_host_to_himself() -> None:
    run_tests_as_user(
        "escape/test_neighbours.py",
        "limits/test_each_limit.py::test_a_limit_is_told_as_that_limit_and_soon",
        "host/test_sudden_death.py",
    )


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
