"""The engine's end of a leash, with a warden that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from cloche.engine.sandbox import AsyncHostSandbox
from cloche.errors import Refused, SandboxFailed
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.walls import leash_messages, sockets
from cloche.walls.leash import AsyncLeashHold


@dataclass
class Warden:
    leash: sockets.Socket
    hint: str = ""

    def failure(self) -> str:
        return ""

    def request(self) -> dict[str, object]:
        return leash_messages.decode(self.leash.recv(leash_messages.MAX_MESSAGE))


@pytest.fixture
def held() -> Iterator[tuple[Warden, AsyncLeashHold]]:
    stream, agents = sockets.pair()
    leash, wardens = sockets.pair()
    warden = Warden(wardens)
    hold = AsyncLeashHold(warden, stream, leash)
    yield warden, hold
    hold.abandon()
    agents.close()
    wardens.close()


async def begin(hold: AsyncLeashHold) -> asyncio.Task[object]:
    task: asyncio.Task[object] = asyncio.create_task(hold.usage())
    await asyncio.sleep(0)
    return task


async def cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_the_answer_to_a_cancelled_request_is_nobody_elses(held: tuple[Warden, AsyncLeashHold]) -> None:
    warden, hold = held
    for number in (1, 2):
        await cancel(await begin(hold))
        assert warden.request() == {"usage": True}
        leash_messages.tell(warden.leash, usage={"oom_kills": number})
    for number in (3, 4):
        asking = asyncio.create_task(hold.usage())
        await asyncio.sleep(0)
        assert warden.request() == {"usage": True}
        leash_messages.tell(warden.leash, usage={"oom_kills": number})
        assert (await asyncio.wait_for(asking, 20)).oom_kills == number


async def test_the_refusal_of_a_cancelled_pause_answers_nothing_else(held: tuple[Warden, AsyncLeashHold]) -> None:
    warden, hold = held
    pausing = asyncio.create_task(hold.pause())
    await asyncio.sleep(0)
    await cancel(pausing)
    leash_messages.tell(warden.leash, refused="not here")
    leash_messages.tell(warden.leash, usage={"oom_kills": 7})
    assert (await asyncio.wait_for(hold.usage(), 20)).oom_kills == 7
    leash_messages.tell(warden.leash, refused="not here")
    with pytest.raises(Refused, match="not here"):
        await asyncio.wait_for(hold.pause(), 20)


async def test_a_task_that_measures_leaves_the_reason_of_a_failure_to_the_task_that_wants_it(
    held: tuple[Warden, AsyncLeashHold],
) -> None:
    warden, hold = held
    unused: Any = SimpleNamespace(name="played")
    box = AsyncHostSandbox(Order(Limits()), {}, unused)
    box._hold = hold
    leash_messages.tell(warden.leash, failed="it was killed while it was made")
    assert await box.cpu_time() is None
    with pytest.raises(SandboxFailed, match="killed while it was made"):
        await box.end()
