"""Measures how long one piece of work holds the event loop, during which no other client is served.

A timer of the loop compares the CPU time that the loop's thread has used with the time that may have passed; a timer
that comes late because the host is busy has used none.  A thread looks meanwhile which function is at work.  Where it
finds none, one piece of work has ended and the next has not begun: after a wait for a processor, many small pieces are
due at once, and are not one long piece.  Python's garbage collector interrupts any function, so its time is not the
function's, and is reported by itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable
from functools import partial
from threading import Event, Thread, get_ident
from time import clock_gettime, monotonic, pthread_getcpuclockid
from types import FrameType

log = logging.getLogger("cloche.loop")

TICK_S = 0.01
COUNTED_S = 0.05  # of CPU time: no request may hold the loop for longer
REPORTED_S = 0.1  # of CPU time, from which the operator is warned
_LOOK_S = 0.05
_OURS = "cloche."
_RUNNER = "asyncio.runners"  # the module at the top of the stack while no callback runs


class LoopWatch:
    """Watches the loop in which it is made, until it is stopped; `cpu_time` tells what the loop's thread has used."""

    def __init__(self, count: Callable[[float], None], cpu_time: Callable[[], float] | None = None) -> None:
        self._loop, self._count, self._thread_id = asyncio.get_running_loop(), count, get_ident()
        self._cpu_time = cpu_time or partial(clock_gettime, pthread_getcpuclockid(self._thread_id))
        self._used, self._ticked = self._cpu_time(), monotonic()
        self._longest = 0.0  # CPU time of the longest piece of work since the timer, if several were seen
        self._place = ""  # the function that was at work when the loop was last held
        self._stopped = Event()
        self._collecting = self._collected = 0.0
        gc.callbacks.append(self._collect)
        self._timer = self._loop.call_later(TICK_S, self._tick)
        Thread(target=self._look, name="cloche-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._timer.cancel()
        gc.callbacks.remove(self._collect)

    def _tick(self) -> None:
        used = self._cpu_time()
        # The work before the timer was due may have been many small pieces, so it does not count.
        held = max(used - self._used, self._longest) - TICK_S - self._collected
        if held >= COUNTED_S:
            self._count(held)
            level = logging.WARNING if held >= REPORTED_S else logging.INFO
            log.log(level, "one piece of work held the event loop for %.0f ms: %s", held * 1000, self._place or "brief")
        self._used, self._ticked, self._place, self._collected, self._longest = used, monotonic(), "", 0.0, 0.0
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _collect(self, phase: str, _: dict[str, int]) -> None:
        """Called by the garbage collector before and after each collection, in the thread that it interrupts."""
        if get_ident() != self._thread_id:
            return
        if phase == "start":
            self._collecting = self._cpu_time()
            return
        took = self._cpu_time() - self._collecting
        self._collected += took
        if took >= REPORTED_S:
            log.warning("collecting garbage took %.0f ms", took * 1000)

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            if monotonic() - self._ticked >= _LOOK_S and not self._place:
                frame = sys._current_frames().get(self._thread_id)
                if frame is not None and frame.f_globals.get("__name__") == _RUNNER:
                    self._split()
                else:
                    self._place = _described(frame)

    def _split(self) -> None:
        """Let a new piece of work begin, because the loop is between two."""
        used = self._cpu_time()
        self._used, self._longest = used, max(self._longest, used - self._used)


def _described(frame: FrameType | None) -> str:
    """Name the function at work, and the function of ours that called it."""
    names: list[str] = []
    while frame is not None and len(names) < 3:
        module = frame.f_globals.get("__name__", "")
        if not names or module.startswith(_OURS):
            names.append(f"{module}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " in ".join(names)
