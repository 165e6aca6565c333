"""Times E2B's own client under its own interpreter; bench/clients.py sends requests as lines on standard input."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from e2b_code_interpreter import Sandbox

TURNS, AT_ONCE = 20, 20


def first() -> list[float]:
    """From nothing to the first result."""
    start = time.perf_counter()
    sandbox = Sandbox.create()
    result = sandbox.run_code("1 + 1")
    seconds = time.perf_counter() - start
    sandbox.kill()
    assert result.text == "2"
    return [seconds]


def turn() -> list[float]:
    """Run code in a sandbox that exists already."""
    with Sandbox.create() as sandbox:
        sandbox.run_code("x = 1")
        times = []
        for _ in range(TURNS):
            start = time.perf_counter()
            sandbox.run_code("1 + 1")
            times.append(time.perf_counter() - start)
    return times


def many() -> list[float]:
    """Start many sandboxes at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        start = time.perf_counter()
        made = list(pool.map(lambda _: Sandbox.create(), range(AT_ONCE)))
        seconds = time.perf_counter() - start
        list(pool.map(lambda sandbox: sandbox.kill(), made))
    return [seconds]


for line in sys.stdin:
    print(json.dumps({"first": first, "turn": turn, "many": many}[line.strip()]()), flush=True)
