"""Sandboxes that are claimed before anybody wants them: used without the nursery, done without when they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

import cloche
from cloche import settings
from cloche.blocking.engine.place import HostPlace
from cloche.blocking.sandbox.one_shot import checked_job
from cloche.blocking.sandbox.processes import Process
from cloche.blocking.walls.jail.wall import Jail
from cloche.model.limits import Limits
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture
def nurseries() -> Iterator[Nurseries]:
    found = Nurseries(settings.load())
    yield found
    found.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def nursery_of(nurseries: Nurseries, kind: str = "plain") -> int:
    """The process that all sandboxes are forked from."""
    (nursery,) = children(nurseries._by_kind[kind]._keeper)
    return nursery


def settle(nurseries: Nurseries) -> None:
    """Wait until all is ready that will be: two for anything, and the one that is claimed already."""
    eventually(lambda: len(children(nursery_of(nurseries))) == 3, what="a full pool")
    eventually(lambda: not is_any_being_made(nurseries), what="three sandboxes that are ready")
    eventually(lambda: has_nothing_to_do(nursery_of(nurseries)), what="a nursery without work")


def is_any_being_made(nurseries: Nurseries) -> bool:
    """A sandbox that waits has its spare Python as a child."""
    return any(not children(sandbox) for sandbox in children(nursery_of(nurseries)))


def has_nothing_to_do(pid: int) -> bool:
    """Return whether the process sleeps, and has for longer than a nursery waits before it works ahead (20 ms).

    A nursery that has still to hand over a claimed sandbox sets itself that time; one that has done so sleeps on.
    """
    before = sleeps(pid)
    time.sleep(0.1)
    return "State:\tS" in before and before == sleeps(pid)


def sleeps(pid: int) -> str:
    """The process's state, and how often it has gone to sleep."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return "\n".join(line for line in lines if line.startswith(("State", "voluntary")))


def test_one_that_is_claimed_already_is_used_without_the_nursery(nurseries: Nurseries) -> None:
    wall = Jail(nurseries)
    assert cloche.run("print(1)", wall=wall).stdout == "1\n"
    settle(nurseries)
    job = checked_job("print(2)", Limits())
    box = HostPlace(wall=wall).one_shot(job)
    os.kill(nursery_of(nurseries), signal.SIGSTOP)
    try:
        process = Process(box.programs.start_program(job.program))
        heard = [process.next_event(), process.next_event()]
    finally:
        os.kill(nursery_of(nurseries), signal.SIGCONT)
    assert [event.kind for event in heard if event is not None] == ["started", "stdout"]
    assert process.wait().stdout == "2\n"
    box.let_go()


def test_one_that_has_died_meanwhile_is_done_without(nurseries: Nurseries) -> None:
    wall = Jail(nurseries)
    cloche.run("print(1)", wall=wall)
    for number in range(3):
        settle(nurseries)
        doomed = set(children(nursery_of(nurseries)))
        for sandbox in doomed:
            os.kill(sandbox, signal.SIGKILL)
        eventually(lambda: not doomed & set(children(nursery_of(nurseries))), what="the end of all")  # noqa: B023
        assert cloche.run(f"print({number})", wall=wall).stdout == f"{number}\n"


def test_limits_count_from_when_it_is_used(nurseries: Nurseries) -> None:
    wall = Jail(nurseries)
    cloche.run("print(1)", wall=wall, timeout=0.5)
    settle(nurseries)
    assert cloche.run("import time; time.sleep(60)", wall=wall, timeout=0.5).error.kind == "timeout"
    settle(nurseries)
    too_much = "kept = [b'x' * (1 << 20) for _ in range(1000)]"
    assert cloche.run(too_much, wall=wall).error.kind == "memory"


def test_a_forked_process_claims_its_own(nurseries: Nurseries) -> None:
    cloche.run("print(1)")  # of this process's own nurseries: forks know of those
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, cloche.run("print('forked')").stdout.encode())
        finally:
            os._exit(0)
    assert cloche.run("print('parent')").stdout == "parent\n"
    os.waitpid(pid, 0)
    assert os.read(reading, 100) == b"forked\n"
    os.close(reading)
    os.close(writing)
    assert cloche.run("print('again')").stdout == "again\n"


def test_the_processor_time_counts_from_the_first_instruction(nurseries: Nurseries) -> None:
    """A program may be over before the nursery hears that its sandbox is used: its time counts all the same."""
    wall = Jail(nurseries)
    cloche.run("print(1)", wall=wall)
    settle(nurseries)
    job = checked_job("import time\nwhile time.process_time() < 0.1: pass\nprint(2)", Limits())
    box = HostPlace(wall=wall).one_shot(job)
    os.kill(nursery_of(nurseries), signal.SIGSTOP)
    try:
        process = Process(box.programs.start_program(job.program))
        heard = [process.next_event(), process.next_event()]
    finally:
        os.kill(nursery_of(nurseries), signal.SIGCONT)
    assert [event.kind for event in heard if event is not None] == ["started", "stdout"]
    assert process.wait().cpu_time > 0.05
    box.let_go()
