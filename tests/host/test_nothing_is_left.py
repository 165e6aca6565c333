"""After many sandboxes the host is what it was."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries
from cloche.walls.jail.wall import AsyncJail

pytestmark = pytest.mark.alone

MANY, AT_ONCE = 1000, 50


@pytest.fixture
def nurseries() -> Iterator[Nurseries]:
    nurseries = Nurseries(Settings(settings.load().environment, warm=False))
    yield nurseries
    nurseries.close()


@pytest.mark.timeout(150)
def test_a_thousand_sandboxes_with_kills_in_between_leave_nothing(host, nurseries):
    others = host.keepers()
    assert cloche.run("print(1)", wall=Jail(nurseries)).stdout == "1\n"
    (keeper,) = set(host.keepers()) - set(others)
    nursery = host.nursery(keeper)
    time.sleep(0.5)  # until the pool is full again
    gc.collect()  # what earlier tests have left lying about
    before = host.count()
    begin = time.monotonic()
    outcomes = asyncio.run(_many(host, nursery, AsyncJail(nurseries)))
    took = time.monotonic() - begin
    time.sleep(0.1)  # in a rush, no next one is claimed ahead
    assert cloche.run("print(1)", wall=Jail(nurseries)).stdout == "1\n"
    gc.collect()
    print(f"{MANY} sandboxes in {took:.1f} s: {dict(outcomes)}")
    host.settles(lambda: host.count() == before, 3)
    assert host.count() == before
    assert sum(outcomes.values()) == MANY
    assert outcomes["fine"] > MANY // 2
    assert not outcomes.keys() - {"fine", "closed", "forgotten", "lost", "killed", "unmade"}
    assert took < 90


async def _many(host, nursery: int, wall: AsyncJail) -> Counter[str]:
    chance = random.Random(4711)
    gate = asyncio.Semaphore(AT_ONCE)
    outcomes: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with gate:
            outcomes[await _one(wall, number, chance.random(), chance.randrange(1000))] += 1

    async def kill_some() -> None:
        while True:
            await asyncio.sleep(0.1)
            inits = host.inits(nursery)
            if inits:
                try:
                    os.kill(chance.choice(inits), signal.SIGKILL)
                    outcomes["kills"] += 1
                except ProcessLookupError:
                    pass

    killing = asyncio.create_task(kill_some())
    await asyncio.gather(*(one(number) for number in range(MANY)))
    killing.cancel()
    assert outcomes["lost"] + outcomes["unmade"] <= outcomes.pop("kills")  # nobody else was harmed
    return outcomes


async def _one(wall: AsyncJail, number: int, what: float, delay_ms: int) -> str:
    if what < 0.8:
        try:
            result = await cloche.async_run(f"print({number})", timeout=30, wall=wall)
        except cloche.SandboxFailed:
            return "unmade"  # killed while it was made
        if result.error is None:
            assert result.stdout == f"{number}\n"
            return "fine"
        return result.error.kind
    box = cloche.AsyncSandbox(timeout=30, wall=wall)
    try:
        process = await box.commands.start("sleep 60")
    except (cloche.Gone, cloche.SandboxFailed):
        return "lost"
    if what < 0.9:
        await asyncio.sleep(delay_ms / 5000)
        await box.close()  # while it runs
        return "closed"
    del process, box
    return "forgotten"


def test_a_forgotten_sandbox_ends(nurseries):
    box = cloche.Sandbox(wall=Jail(nurseries))
    box.commands.start("exec sleep 612.34")
    eventually(lambda: _sleepers() == 1)  # the shell becomes `sleep`, and has no command line in that moment
    del box
    gc.collect()
    eventually(lambda: _sleepers() == 0, 2)


def _sleepers() -> int:
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += b"612.34" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
    return found


def test_the_engines_memory_is_flat():
    def used() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    for _ in range(50):
        cloche.run("print('x' * 1000)")
    gc.collect()
    before = used()
    for _ in range(300):
        cloche.run("print('x' * 1000)")
    gc.collect()
    assert used() - before < 8 << 20
