"""Waits for what no event announces: the one place in the tests that polls."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

_PAUSE_S = 0.01


def eventually(condition: Callable[[], Found], within_s: float = 20, what: str = "the condition") -> Found:
    """Return the first true value of `condition`; fail if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(_PAUSE_S)
    return found


async def eventually_async(condition: Callable[[], object], within_s: float = 20, what: str = "the condition") -> None:
    """Wait in the same way while the event loop turns; the condition may be awaitable."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        await asyncio.sleep(_PAUSE_S)


def processes_called(name: str) -> list[int]:
    """Return the processes of this host, inside or outside of sandboxes, that have given themselves this name.

    To look at them asks nothing of the sandbox, as a request would.
    """
    found = []
    for pid in Path("/proc").iterdir():
        try:
            if pid.name.isdigit() and (pid / "comm").read_text() == f"{name}\n":
                found.append(int(pid.name))
        except OSError:
            continue  # it has just ended
    return found
