"""Times the turns of a live session while a neighbour exceeds one limit after the other."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import cloche
from bench import work

SECONDS = 1.0  # duration of each attack, repeated in fresh sandboxes
REST_S = 0.005  # pause between two turns; a person or a model takes longer

ATTACKS = {
    "time": "while True: pass",
    "memory": "hoard = []\nwhile True: hoard.append(bytearray(5 << 20))",
    "output": "while True: print('x' * 10_000)",
    "processes": "import os, time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(5)",
    "disk": "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))",
    "files": "number = 0\nwhile True:\n    open(f'{number}', 'w').close()\n    number += 1",
    "descriptors": "import os\nwhile True: os.open('/dev/null', os.O_RDONLY)",
}


def sides() -> dict[str, Callable[[], list[float]]]:
    """Return the contest: alone, and beside each attack."""
    return {"alone": _beside(None), **{name: _beside(code) for name, code in ATTACKS.items()}}


def _beside(code: str | None) -> Callable[[], list[float]]:
    return lambda: [_turn(code)]


def _turn(code: str | None) -> float:
    """Measure the median time of a turn."""
    until = time.monotonic() + SECONDS
    attacker = threading.Thread(target=_attack, args=(code, until))
    times: list[float] = []
    with cloche.Sandbox() as box:
        box.run("x = 0")
        attacker.start()
        while time.monotonic() < until:
            start = time.perf_counter()
            result = box.run("x += 1; x")
            times.append(time.perf_counter() - start)
            if result.text != str(len(times)):
                raise work.WrongOutput(f"{result}")
            time.sleep(REST_S)
    attacker.join()
    return statistics.median(times)


def _attack(code: str | None, until: float) -> None:
    while code is not None and time.monotonic() < until:
        with cloche.Sandbox(timeout=SECONDS) as box:
            box.run(code)
