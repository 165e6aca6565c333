"""Whoever is killed, nothing of ours keeps running or stays mounted, and the next run works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.settings import Settings
from cloche.walls.jail import cgroups
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = pytest.mark.alone


def engine(script: str, **options: object) -> subprocess.Popen[str]:
    """An engine in a process of its own; it prints a line when it is ready."""
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


BUSY = """
    import sys, threading, cloche
    def busy(number):
        cloche.run("import os, time\\nos.fork()\\nwhile True: time.sleep(0.01)", timeout=600)
    boxes = [cloche.Sandbox() for _ in range(5)]
    for box in boxes:
        box.commands.start("setsid sleep 600 & while true; do sleep 0.1; done")
    for number in range(5):
        threading.Thread(target=busy, args=(number,), daemon=True).start()
    import time; time.sleep(1)
    print("busy", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_killing_the_engine_leaves_nothing_after_two_seconds(host, number):
    process = engine(BUSY)
    assert process.stdout.readline() == "busy\n"
    ours = host.descendants(process.pid)
    keepers = host.keepers(process.pid)
    assert len(ours) >= 10
    assert host.groups(*keepers) or os.geteuid() != 0
    process.send_signal(number)
    process.wait(10)
    gone = host.settles(lambda: not any(_alive(pid) for pid in ours) and not host.groups(*keepers))
    assert gone, ([pid for pid in ours if _alive(pid)], host.groups(*keepers))
    process.stdin.close()
    process.stdout.close()


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def jail():
    nurseries = Nurseries(Settings(settings.load().environment, warm=False))
    yield Jail(nurseries)
    nurseries.close()


@pytest.mark.parametrize("victim", ["nursery", "keeper", "both"])
def test_killing_the_nursery_or_its_keeper_is_told_and_mended(host, jail, victim):
    others = host.keepers()
    box = cloche.Sandbox(wall=jail)
    running = box.commands.start("sleep 600")
    (keeper,) = set(host.keepers()) - set(others)
    nursery = host.nursery(keeper)
    ours = host.descendants(keeper) | {keeper}
    if victim in ("keeper", "both"):
        os.kill(keeper, signal.SIGKILL)
    if victim in ("nursery", "both"):
        try:
            os.kill(nursery, signal.SIGKILL)
        except ProcessLookupError:
            pass
    begin = time.monotonic()
    assert running.wait().error.kind == "lost"
    assert time.monotonic() - begin < 2
    with pytest.raises(cloche.ClocheError):
        box.files.list()
    assert cloche.run("print(1)", wall=jail).stdout == "1\n"
    assert host.settles(lambda: not any(_alive(pid) for pid in ours))
    assert host.settles(lambda: not host.groups(keeper))
    box.close()


def test_killing_an_agent_is_told_and_harms_nobody_else(host, jail):
    others = host.keepers()
    with cloche.Sandbox(wall=jail) as box, cloche.Sandbox(wall=jail) as neighbour:
        (keeper,) = set(host.keepers()) - set(others)
        neighbour.run_program("print(1)")
        before = set(host.inits(host.nursery(keeper)))
        running = box.commands.start("exec sleep 61.7")
        agents = [pid for pid in before if any("61.7" in _command(child) for child in host.descendants(pid))]
        assert len(agents) == 1
        os.kill(agents[0], signal.SIGKILL)
        assert running.wait().error.kind == "lost"
        with pytest.raises(cloche.Gone):
            box.files.list()
        assert neighbour.run_program("print(2)").stdout == "2\n"
        assert cloche.run("print(1)", wall=jail).stdout == "1\n"


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs control groups")
def test_a_start_sweeps_what_an_unclean_end_has_left(host):
    dead = subprocess.Popen(["true"])
    dead.wait()
    place = cgroups.detect()
    name = f"cloche-{dead.pid}-12345-1"
    for fd in place.descriptors():
        os.mkdir(name, dir_fd=fd)
    sleeper = subprocess.Popen(["sleep", "600"])
    for fd in place.descriptors():
        with open(os.open(f"{name}/cgroup.procs", os.O_WRONLY, dir_fd=fd), "w") as file:
            file.write(str(sleeper.pid))
    nurseries = Nurseries(settings.load())
    try:
        assert cloche.run("print(1)", wall=Jail(nurseries)).stdout == "1\n"
        assert sleeper.wait(5) == -signal.SIGKILL  # what was still in there
    finally:
        nurseries.close()
    assert host.settles(lambda: not host.groups(dead.pid))
    place.close()


def test_an_engine_out_of_descriptors_says_so_and_recovers():
    process = engine("""
        import os, resource, time, cloche
        assert cloche.run("print(1)").stdout == "1\\n"
        before = len(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        kept, said = [], set()
        for room in range(8, -1, -1):
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            kept = []
            try:
                while True: kept.append(os.dup(0))
            except OSError: pass
            for _ in range(room): os.close(kept.pop())
            try:
                result = cloche.run("print(1)")
                said.add(result.error.kind if result.error else "fine")
            except cloche.ClocheError as problem:
                said.add(type(problem).__name__)
                message = str(problem)
            for fd in kept: os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert cloche.run("print(2)").stdout == "2\\n"
        time.sleep(0.1)  # in a rush, no next one is claimed ahead
        assert cloche.run("print(3)").stdout == "3\\n"
        print(said, message if "SandboxFailed" in said else "", len(os.listdir("/proc/self/fd")) - before, flush=True)
    """)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "SandboxFailed" in out or "Refused" in out, out
    assert out.rstrip().endswith(" 0"), out
    assert "descriptors" in out or "open files" in out, out


def test_ctrl_c_is_for_the_engine_alone(host):
    """A terminal sends it to a whole group; the keeper and the nursery must not be in it."""
    process = engine(
        """
        import os, signal, sys, cloche
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: None)
        box = cloche.Sandbox()
        box.files.write("x", b"kept")
        os.killpg(0, signal.SIGINT)
        os.killpg(0, signal.SIGHUP)
        import time; time.sleep(0.2)
        print(box.files.read("x"), cloche.run("print(1)").stdout, flush=True)
        """,
        start_new_session=True,
    )
    assert process.communicate(timeout=30)[0] == "b'kept' 1\n\n"
