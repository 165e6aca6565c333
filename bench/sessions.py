"""Measures sessions: turns, the first run, undo, branches, output; each in a live sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import cloche
from bench import jupyter, machine, work
from cloche.model.events import Output

TURN = "x += 1; x"
TURNS = 20  # per sample, because one turn is too short to measure
PANDAS = "import pandas as pd; pd.DataFrame({'a': range(100)}).describe().shape"
ARRAY_MB = 500
ARRAY = f"import numpy as np; big = np.ones(({ARRAY_MB} << 20) // 8); big.nbytes"
OUTPUT_MB = 100
OUTPUT = f"import sys\nblock = 'x' * 65535 + '\\n'\nfor _ in range({OUTPUT_MB} * 16): sys.stdout.write(block)"


class Sessions:
    """The sides that keep state: Cloche's sandboxes, and Jupyter's kernel."""

    def __init__(self, libraries: dict[str, str]) -> None:
        self._libraries = libraries
        self._open: dict[str, Any] = {}

    def close(self) -> None:
        for session in self._open.values():
            session.close()

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        return {
            "turn": {"cloche": self._turn, "jupyter": self._turn_jupyter, "undo": self._turn_with_undo},
            "first": {"cloche": self._first, "jupyter": self._first_jupyter},
            "undo": {"checkpoint": self._checkpoint, "restore": self._restore, "memory": self._checkpoint_memory},
            "branch": {"branch": self._branch, "context": self._context},
            "stream": {"cloche": self._stream, "memory": self._stream_memory},
        }

    def _box(self, name: str, code: str, **options: Any) -> cloche.Sandbox:
        if name not in self._open:
            self._open[name] = cloche.Sandbox(timeout=120, **options)
            _run(self._open[name], code)
        box: cloche.Sandbox = self._open[name]
        return box

    def _turn(self) -> list[float]:
        return _turns(self._box("turn", "x = 0"))

    def _turn_with_undo(self) -> list[float]:
        return _turns(self._box("undo", "x = 0", undo=True))

    def _turn_jupyter(self) -> list[float]:
        if "jupyter" not in self._open:
            self._open["jupyter"] = jupyter.Kernel(self._libraries)
            self._open["jupyter"].run("x = 0")
        kernel = self._open["jupyter"]
        return [_timed(lambda: kernel.run(TURN)) for _ in range(TURNS)]

    def _first(self) -> list[float]:
        def session() -> None:
            with cloche.Sandbox() as box:
                _run(box, PANDAS)
                ends.append(time.perf_counter())

        ends: list[float] = []
        start = time.perf_counter()
        session()
        return [ends[0] - start]

    def _first_jupyter(self) -> list[float]:
        start = time.perf_counter()
        kernel = jupyter.Kernel(self._libraries)
        try:
            kernel.run(PANDAS)
            return [time.perf_counter() - start]
        finally:
            kernel.close()

    def _big(self) -> cloche.Sandbox:
        return self._box("big", ARRAY, memory="4G")

    def _checkpoint(self) -> list[float]:
        box = self._big()
        start = time.perf_counter()
        checkpoint = box.checkpoint()
        seconds = time.perf_counter() - start
        checkpoint.remove()
        return [seconds]

    def _restore(self) -> list[float]:
        box = self._big()
        checkpoint = box.checkpoint()
        start = time.perf_counter()
        box.restore(checkpoint)
        seconds = time.perf_counter() - start
        if _run(box, "int(big[0]) + len(big)").text != str(1 + (ARRAY_MB << 20) // 8):
            raise work.WrongOutput("the array is not what it was")
        checkpoint.remove()
        return [seconds]

    def _checkpoint_memory(self) -> list[float]:
        box = self._big()
        _run(box, "big[0]")
        before = box.usage().memory
        checkpoint = box.checkpoint()
        _run(box, "big[0]")
        more = (box.usage().memory - before) / (1 << 20)
        checkpoint.remove()
        return [more]

    def _branch(self) -> list[float]:
        box = self._box("branches", "x = 1")
        start = time.perf_counter()
        branch = box.branch()
        branch.run("x")
        seconds = time.perf_counter() - start
        branch.remove()
        return [seconds]

    def _context(self) -> list[float]:
        box = self._box("branches", "x = 1")
        start = time.perf_counter()
        context = box.contexts.create()
        context.run("1")
        seconds = time.perf_counter() - start
        context.remove()
        return [seconds]

    def _stream(self) -> list[float]:
        """Measure megabytes per second, as events arrive."""
        box = self._box("stream", "1", output="200M")
        start, size = time.perf_counter(), 0
        for event in box.stream(OUTPUT):
            if isinstance(event, Output):
                size += len(event.data)
        if size != OUTPUT_MB << 20:
            raise work.WrongOutput(f"{size} bytes came")
        return [OUTPUT_MB / (time.perf_counter() - start)]

    def _stream_memory(self) -> list[float]:
        """Measure how many megabytes more the engine uses while output streams through it."""
        box = self._box("stream", "1", output="200M")
        before = machine.pss_mb({os.getpid()})
        most = before
        for number, _ in enumerate(box.stream(OUTPUT)):
            if number % 100 == 0:
                most = max(most, machine.pss_mb({os.getpid()}))
        return [most - before]


def _turns(box: cloche.Sandbox) -> list[float]:
    return [_timed(lambda: _run(box, TURN)) for _ in range(TURNS)]


def _run(box: cloche.Sandbox, code: str) -> cloche.Result:
    result = box.run(code)
    if result.error is not None:
        raise work.WrongOutput(f"{result.error}")
    return result


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
