"""A task that is cancelled while its request is on the way: the run on the server is cancelled as well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import cloche


async def test_a_run_that_is_cancelled_at_any_step_leaves_its_context_free(server: Any) -> None:
    async with cloche.AsyncSandbox(url=server.url, api_key=server.key) as box:
        await box.run("x = 1")
        for steps in range(1, 13):
            task = asyncio.create_task(box.run("import time; time.sleep(60)"))
            for _ in range(steps):  # from before the request is sent to after its answer has come
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(10):  # the time limit of the cancelled run is 30 s
                assert (await box.run("x")).text == "1"
