"""The rate and the quota of a sandbox's connections."""

from __future__ import annotations

import asyncio

import pytest

from cloche.egress.meter import Meter

SIZE = 16 << 10


async def pass_for(meter: Meter, seconds: float, size: int = SIZE) -> int:
    passed = 0
    try:
        async with asyncio.timeout(seconds):
            while granted := await meter.take(size):
                passed += granted
    except TimeoutError:
        pass
    return passed


async def test_a_rate_is_accurate_and_shared_fairly() -> None:
    meter = Meter(1_000_000, None)
    passed = await asyncio.gather(*(pass_for(meter, 2.0, size) for size in (SIZE, SIZE, 100 * SIZE, 1000)))
    assert sum(passed) == pytest.approx(2_000_000, rel=0.1)
    assert max(passed[:3]) < 1.2 * min(passed[:3])
    assert passed[3] > 0.1 * passed[0]  # the small one is not starved by the large ones
    assert meter.used == sum(passed)


async def test_a_pause_does_not_save_up_a_burst() -> None:
    meter = Meter(100_000, None)
    await asyncio.sleep(0.3)
    assert await pass_for(meter, 0.1) <= 100_000 * 0.2 + 1000


async def test_a_quota_is_exact() -> None:
    for rate in (None, 1_000_000):
        meter = Meter(rate, 100_001)
        passed = await asyncio.gather(pass_for(meter, 5), pass_for(meter, 5))
        assert sum(passed) == 100_001
        assert await meter.take(1) == 0
        meter.give_back(7)
        assert (await meter.take(10), await meter.take(10)) == (7, 0)


async def test_a_change_is_in_force_at_once() -> None:
    meter = Meter(1024, None)
    waiting = [asyncio.create_task(meter.take(1 << 20)) for _ in range(3)]
    await asyncio.sleep(0)
    meter.change(None, None)
    assert sum(await asyncio.gather(*waiting)) > 2 << 20
    used = meter.used
    meter.change(None, used + 5)
    assert (await meter.take(10), await meter.take(10)) == (5, 0)
    meter.change(2048, used + 10)
    assert await meter.take(10) == 5


async def test_a_waiter_that_gives_up_takes_nothing_and_holds_nobody_up() -> None:
    meter = Meter(100_000, None)
    first = await meter.take(SIZE)
    waiting = [asyncio.create_task(meter.take(SIZE)) for _ in range(10)]
    await asyncio.sleep(0.02)
    for task in waiting[:9]:
        task.cancel()
    last = await waiting[9]
    passed = [task.result() for task in waiting[:9] if not task.cancelled()]
    assert meter.used == first + last + sum(passed)
