"""The CPU time of a sandbox, counted from its processes where no control group counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloche.walls.jail.process_times import ProcessTimes
from cloche.walls.jail.process_tree import processes

BURN = "import os, time\ndef burn(s):\n    while time.process_time() < s: pass\n"
CODES = {
    "itself": "burn(0.2)",
    "threads": "import threading\none = threading.Thread(target=burn, args=[0.2]); one.start(); one.join()",
    "children that it waits for": "for _ in range(4):\n    if not os.fork(): burn(0.1); os._exit(0)\n    os.wait()",
    "a child of a child": "if not os.fork():\n    if not os.fork(): burn(0.2); os._exit(0)\n"
    "    os.wait(); os._exit(0)\nos.wait()",
}


@pytest.fixture
def proc() -> Iterator[int]:
    fd = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("looks_often", [False, True])
@pytest.mark.parametrize("who", CODES)
def test_nothing_is_lost_and_nothing_is_counted_twice(proc: int, who: str, looks_often: bool) -> None:
    used = "sum(os.times()[:4])"
    code = f"{BURN}input()\nbefore = {used}\n{CODES[who]}\nos.write(1, b'%f %f\\n' % (before, {used}))\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        times = ProcessTimes(proc, program.pid)
        program.stdin.write(b"\n")
        program.stdin.flush()
        os.set_blocking(program.stdout.fileno(), not looks_often)
        while not (line := program.stdout.readline()):
            times.count()
        times.count()
        before, after = map(float, line.split())
        assert after - before - 0.03 <= times.counted_s <= after + 0.03  # the kernel tells hundredths of a second
        program.kill()


def test_a_sandbox_that_is_gone_keeps_its_last_count(proc: int) -> None:
    with subprocess.Popen([sys.executable, "-c", f"{BURN}burn(9)"]) as program:
        times = ProcessTimes(proc, program.pid)
        while times.counted_s < 0.05:
            times.count()
        program.kill()
    before = times.counted_s
    times.count()
    assert times.counted_s == before


def test_a_thread_that_ends_meanwhile_hides_no_process(tmp_path: Path) -> None:
    # A folder that looks like /proc: the thread 11 has ended after it was listed, and 12 has a child.
    for thread, children in (("10/task/10", "20"), ("10/task/11", None), ("10/task/12", "30"), ("30/task/30", "")):
        (tmp_path / thread).mkdir(parents=True)
        if children is not None:
            (tmp_path / thread / "children").write_text(children)
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        listed = os.listdir
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "listdir", lambda folder: sorted(listed(folder)))
            assert sorted(processes(fd, 10)) == [10, 20, 30]
    finally:
        os.close(fd)
