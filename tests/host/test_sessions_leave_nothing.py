"""Many turns, many sessions, many checkpoints: neither the engine nor the host keeps anything of them."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = pytest.mark.alone


@pytest.fixture
def nurseries() -> Iterator[Nurseries]:
    nurseries = Nurseries(Settings(settings.load().environment))
    nurseries.warm_up()
    yield nurseries
    nurseries.close()


def used() -> int:
    """Bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def settled(host, nurseries: Nurseries) -> dict[str, int]:
    """What is there, when the pool is full again."""
    with cloche.Sandbox(wall=Jail(nurseries)) as box:
        assert box.run("1 + 1").text == "2"
    time.sleep(0.5)
    gc.collect()
    counted: dict[str, int] = host.count()
    return counted


def test_five_hundred_turns_leave_nothing_in_the_engine(jail):
    with cloche.Sandbox(tools={"echo": lambda v: v}) as box:

        def turn(number: int) -> None:
            result = box.run(f"x = cloche.tools.echo({number})\nprint('x' * 1000)\nx")
            assert result.text == str(number)

        for number in range(1100):  # until the history is full
            turn(number)
        gc.collect()
        before, open_before, inside = used(), descriptors(), box.usage()
        for number in range(500):
            turn(number)
        gc.collect()
        assert used() - before < 5 << 20
        assert descriptors() == open_before
        assert box.usage().processes == inside.processes
        assert box.usage().memory - inside.memory < 20 << 20


@pytest.mark.timeout(120)
def test_two_hundred_sessions_leave_the_host_as_it_was(host, nurseries):
    before = settled(host, nurseries)
    memory = used()
    for number in range(200):
        with cloche.Sandbox(wall=Jail(nurseries)) as box:
            assert box.run(f"x = {number}; x").text == str(number)
    gc.collect()
    host.settles(lambda: host.count() == before, 3)
    assert host.count() == before
    assert used() - memory < 8 << 20


def test_checkpoints_that_are_alive_end_with_their_sandbox(host, nurseries):
    before = settled(host, nurseries)
    for how in ("close", "forget"):
        box = cloche.Sandbox(wall=Jail(nurseries))
        box.run("x = bytes(1 << 20); open('f', 'wb').write(x)")
        for _ in range(5):
            box.checkpoint()
        box.branch(files="copy").run("x")
        box.attempt("y = 1")  # neither kept nor discarded
        assert host.count()["processes"] >= before["processes"] + 8
        if how == "close":
            box.close()
        del box
        gc.collect()
        host.settles(lambda: host.count() == before, 3)
        assert host.count() == before


def test_checkpoints_and_restores_do_not_pile_up_inside(jail):
    with cloche.Sandbox(checkpoints=4) as box:
        box.run("import os; x = os.urandom(1 << 20)")

        def cycle(number: int) -> None:
            box.run(f"open('f', 'wb').write(os.urandom(1 << 20)); n = {number}")
            point = box.checkpoint()
            box.run("n = None; import subprocess; p = subprocess.Popen(['sleep', '600'])")
            box.restore(point)
            assert box.run("n").text == str(number)

        for number in range(6):
            cycle(number)
        before, open_before = box.usage(), descriptors()
        for number in range(30):
            cycle(number)
        after = box.usage()
        assert after.processes <= before.processes + 2
        assert after.memory - before.memory < 20 << 20
        assert after.disk - before.disk < 3 << 20
        assert descriptors() == open_before
        agent = box.run("import subprocess; len(subprocess.check_output(['ps', 'ax', '-o', 'pid=']).split())")
        assert int(str(agent.text)) < 12


def test_attempts_and_contests_do_not_pile_up_inside(jail):
    with cloche.Sandbox() as box:
        box.run("x = 0")

        def cycle() -> None:
            box.attempt("x += 1; open('f', 'w').close()").discard()
            box.attempt("x += 1").keep()
            box.best_of(["x += 1", "1/0"], "x")

        cycle()
        before, open_before = box.usage(), descriptors()
        for _ in range(4):
            cycle()
        assert box.usage().processes <= before.processes + 2
        assert box.usage().disk - before.disk < 1 << 20
        assert descriptors() == open_before
        assert box.run("x").text == "10"
