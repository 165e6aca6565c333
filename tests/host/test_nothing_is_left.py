"""T41: after many sandboxes the host is what it was."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import time
from collections import Counter

import pytest

import cloche

MANY, AT_ONCE = 1000, 50


@pytest.mark.timeout(150)
def test_a_thousand_sandboxes_with_kills_in_between_leave_nothing(host):
    assert cloche.run("print(1)").stdout == "1\n"
    nursery = host.nursery(host.keepers()[0])
    time.sleep(0.3)  # until the pool is full again
    before = host.count()
    begin = time.monotonic()
    outcomes = asyncio.run(_many(host, nursery))
    took = time.monotonic() - begin
    gc.collect()
    print(f"{MANY} sandboxes in {took:.1f} s: {dict(outcomes)}")
    assert host.settles(lambda: host.count() == before, 3), (before, host.count())
    assert sum(outcomes.values()) == MANY
    assert outcomes["fine"] > MANY // 2
    assert not outcomes.keys() - {"fine", "closed", "forgotten", "lost", "killed", "unmade"}
    assert took < 90


async def _many(host, nursery: int) -> Counter[str]:
    chance = random.Random(4711)
    gate = asyncio.Semaphore(AT_ONCE)
    outcomes: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with gate:
            outcomes[await _one(number, chance.random(), chance.randrange(1000))] += 1

    async def kill_some() -> None:
        while True:
            await asyncio.sleep(0.5)
            inits = host.inits(nursery)
            if inits:
                try:
                    os.kill(chance.choice(inits), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    killing = asyncio.create_task(kill_some())
    await asyncio.gather(*(one(number) for number in range(MANY)))
    killing.cancel()
    return outcomes


async def _one(number: int, what: float, delay_ms: int) -> str:
    if what < 0.8:
        try:
            result = await cloche.async_run(f"print({number})", timeout=30)
        except cloche.SandboxFailed:
            return "unmade"  # killed while it was made
        if result.error is None:
            assert result.stdout == f"{number}\n"
            return "fine"
        return result.error.kind
    box = cloche.AsyncSandbox(timeout=30)
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


def test_a_forgotten_sandbox_ends(host):
    cloche.run("print(1)")
    nursery = host.nursery(host.keepers()[0])
    time.sleep(0.3)
    usual = len(host.inits(nursery))
    box = cloche.Sandbox()
    box.files.write("x", b"1")
    assert len(host.inits(nursery)) >= usual
    started = set(host.descendants(nursery))
    box.commands.start("sleep 600")
    assert host.settles(lambda: bool(host.descendants(nursery) - started))
    sleeping = host.descendants(nursery) - started
    del box
    gc.collect()
    assert host.settles(lambda: not host.descendants(nursery) & sleeping)


def test_the_engines_memory_is_flat():
    def used() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(50):
        cloche.run("print('x' * 1000)")
    gc.collect()
    before = used()
    for _ in range(300):
        cloche.run("print('x' * 1000)")
    gc.collect()
    assert used() - before < 8 << 20
