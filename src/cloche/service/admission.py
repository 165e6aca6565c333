"""A fair, bounded queue: each run waits for a free place, memory and descriptors, and keys do not block each other.

    async with admission.slot(caller.key_id, limits.memory_bytes, limits.cpu):
        …                                                               # raises `Busy` if no place was free in time

A key may not take the last free places while it has some already (policy/shares.py), so another key's first run starts
at once, however many runs the first key has and however long they take.  A place that becomes free goes to the key with
the fewest runs under way; among equals, keys take turns.  When the queue is full, the key with the most waiting runs
gives up its last place to a key that has fewer.

A new run is counted with a small part of its memory limit, since most runs need little; its real use shows in the next
measurement.  When nothing is running, the next run is always let in, so the queue cannot get stuck.  A key's first run
may use half of the memory that is kept free.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from cloche.policy.refusals import Busy
from cloche.policy.shares import may_take
from cloche.service import descriptors
from cloche.service.host_memory import HostMemory

_LIKELY = 64 << 20  # bytes that a run is likely to need at most
_FRESH_S = 0.1  # how long a measurement of memory is valid, and how often it is repeated while memory is short
_SETTLED_S = 1.0  # after this time a run's memory shows in measurements
_LONGEST_ADVICE_S = 60.0


@dataclass(frozen=True, slots=True)
class State:
    """How busy the server is."""

    running: int
    waiting: int
    waiting_by_key: dict[str, int]
    cpu: float
    """The sum of the CPU limits of all runs, in cores."""


class Admission:
    """Lets runs in, in turn; for one event loop."""

    def __init__(
        self,
        runs_at_once: int,
        queue: int,
        wait_s: float,
        memory_reserve: int,
        available_memory: Callable[[], int | None] | None = None,
        *,
        keys: Callable[[], int | None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs_at_once, self._queue, self._wait_s = runs_at_once, queue, wait_s
        self._keys, self._now = keys, now
        self._memory = _Memory(available_memory or HostMemory(), memory_reserve)
        self._turns: dict[str, deque[Slot]] = {}  # waiting runs, by key; the first key is next
        self._running = self._waiting = 0
        self._running_by_key: dict[str, int] = {}
        self._cpu = 0.0
        self._usual_s = 1.0  # how long runs have taken lately
        self._recheck: asyncio.TimerHandle | None = None
        self._closed = False

    def slot(self, key_id: str, memory_bytes: int, cpu: float = 1.0) -> Slot:
        """A place for one run.  `async with` waits for it."""
        return Slot(self, key_id, min(memory_bytes, _LIKELY), cpu)

    def state(self) -> State:
        by_key = {key: len(slots) for key, slots in self._turns.items()}
        return State(self._running, self._waiting, by_key, self._cpu)

    def is_full(self, key_id: str) -> bool:
        """Return whether a new run of this key would have to wait."""
        return not (self._is_next(key_id) and self._has_room(Slot(self, key_id, _LIKELY, 0.0)))

    def close(self) -> None:
        """Let no more runs in, and refuse those that wait with `Busy`."""
        self._closed = True
        for slots in list(self._turns.values()):
            for slot in list(slots):
                self._turn_away(slot, self._closing())

    # --- called by slots

    async def enter(self, slot: Slot) -> None:
        """Wait until the slot is let in."""
        if self._closed:
            raise self._closing()
        if self._waiting:
            self._advance()  # whoever came earlier, and memory that nobody has noticed yet
        if self._is_next(slot.key_id) and self._has_room(slot):
            self._let_in(slot)
            return
        self._make_place_for(slot)
        loop = asyncio.get_running_loop()
        slot.answer = loop.create_future()
        self._turns.setdefault(slot.key_id, deque()).append(slot)
        self._waiting += 1
        patience = loop.call_later(self._wait_s, self._give_up, slot)
        self._advance()
        try:
            refusal = await slot.answer
        except BaseException:  # cancelled, maybe after the slot was let in but before this task woke up
            if slot.since is not None:
                self.leave(slot)
            else:
                self._forget(slot)
            raise
        finally:
            patience.cancel()
        if refusal is not None:
            raise refusal

    def leave(self, slot: Slot) -> None:
        """Give the place back when the run has ended."""
        if slot.since is not None:
            self._usual_s += 0.1 * (self._now() - slot.since - self._usual_s)
            self._memory.give_back(slot)
            slot.since = None
            self._running -= 1
            self._running_by_key[slot.key_id] -= 1
            if not self._running_by_key[slot.key_id]:
                del self._running_by_key[slot.key_id]
            self._cpu = self._cpu - slot.cpu if self._running else 0.0
            self._advance()

    def _advance(self) -> None:
        """Let the next runs in while there is room."""
        while self._waiting:
            key = min(self._turns, key=self._under_way)  # the first of several: it has waited for its turn longest
            slot = self._turns[key][0]
            if not self._has_room(slot):
                break
            self._remove(slot)
            if key in self._turns:
                self._turns[key] = self._turns.pop(key)  # to the end: the others' turn comes first
            self._let_in(slot)
            slot.reply(None)
        if self._waiting and self._has_place(min(self._turns, key=self._under_way)):
            # Memory or descriptors are short, and no event announces that more have become available.
            if self._recheck is None:
                self._recheck = asyncio.get_running_loop().call_later(_FRESH_S, self._check_again)
        elif self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None

    def _check_again(self) -> None:
        self._recheck = None
        self._advance()

    def _under_way(self, key_id: str) -> int:
        return self._running_by_key.get(key_id, 0)

    def _is_next(self, key_id: str) -> bool:
        """Return whether a place that is free now would go to this key."""
        own = self._under_way(key_id)
        return all(own < self._under_way(waiting) for waiting in self._turns)

    def _has_place(self, key_id: str) -> bool:
        free, holding = self._runs_at_once - self._running, len(self._running_by_key)
        return may_take(self._under_way(key_id), free, self._runs_at_once, self._keys(), holding)

    def _has_room(self, slot: Slot) -> bool:
        if not self._has_place(slot.key_id):
            return False
        if not self._running:
            return True
        is_first = not self._under_way(slot.key_id)
        return self._memory.has(slot.need, self._now(), is_first=is_first) and not descriptors.are_short()

    def _let_in(self, slot: Slot) -> None:
        self._running += 1
        self._running_by_key[slot.key_id] = self._under_way(slot.key_id) + 1
        self._cpu += slot.cpu
        slot.since = self._now()
        self._memory.take(slot)

    def _make_place_for(self, slot: Slot) -> None:
        """Find a place in the queue: a free one, or the last place of a key that has more."""
        if self._waiting < self._queue:
            return
        own = len(self._turns.get(slot.key_id, ()))
        longest = max(self._turns.values(), key=len, default=None)
        if longest is None or len(longest) <= own + 1:
            raise self._full()
        self._turn_away(longest[-1], self._full())

    def _give_up(self, slot: Slot) -> None:
        if slot.answer is not None and not slot.answer.done():
            message = f"The server is busy: this run has waited {self._wait_s:g} s for its turn."
            self._turn_away(slot, Busy(message, self._advice(), retry_after=self._retry_after()))

    def _turn_away(self, slot: Slot, refusal: Busy) -> None:
        self._forget(slot)
        slot.reply(refusal)

    def _forget(self, slot: Slot) -> None:
        """Remove a waiting run, and pass its turn on."""
        if slot in self._turns.get(slot.key_id, ()):
            self._remove(slot)
            self._advance()

    def _remove(self, slot: Slot) -> None:
        slots = self._turns[slot.key_id]
        slots.remove(slot)
        self._waiting -= 1
        if not slots:
            del self._turns[slot.key_id]

    def _full(self) -> Busy:
        message = f"The server is busy: {self._running} runs are running and {self._waiting} are waiting."
        return Busy(message, self._advice(), retry_after=self._retry_after())

    def _closing(self) -> Busy:
        return Busy("The server is shutting down.", "Try again when it is back.", retry_after=5.0)

    def _advice(self) -> str:
        return f"Try again in {self._retry_after():.0f} s, or run less at once."

    def _retry_after(self) -> float:
        """Estimate the seconds until all runs that wait now have been let in."""
        return min(_LONGEST_ADVICE_S, max(1.0, self._usual_s * (self._waiting + 1) / self._runs_at_once))


class Slot:
    """A run's place, taken for as long as the `async with` lasts."""

    __slots__ = ("_admission", "answer", "cpu", "key_id", "need", "since")

    def __init__(self, admission: Admission, key_id: str, need: int, cpu: float) -> None:
        self._admission, self.key_id, self.need, self.cpu = admission, key_id, need, cpu
        self.since: float | None = None  # when it was let in
        self.answer: asyncio.Future[Busy | None] | None = None  # for the waiting task; None lets it in

    def reply(self, refusal: Busy | None) -> None:
        """Wake the waiting task."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(refusal)

    async def __aenter__(self) -> None:
        await self._admission.enter(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self)


class _Memory:
    """Memory available to runs: the last measurement, less the likely needs of runs that were let in since."""

    def __init__(self, available: Callable[[], int | None], reserve: int) -> None:
        self._available, self._reserve = available, reserve
        self._free, self._measured = 0.0, float("-inf")
        self._young: set[Slot] = set()  # let in a moment ago: measurements do not show their memory yet

    def has(self, need: int, now: float, *, is_first: bool) -> bool:
        """Return whether there is enough memory for one more run, which may be its key's first."""
        if now - self._measured > _FRESH_S:
            available = self._available()
            self._young = {slot for slot in self._young if self._is_young(slot, now)}
            taken = self._reserve + sum(slot.need for slot in self._young)
            self._free, self._measured = float("inf") if available is None else available - taken, now
        return self._free + (self._reserve // 2 if is_first else 0) >= need

    def take(self, slot: Slot) -> None:
        """Count a run that is let in."""
        self._free -= slot.need
        self._young.add(slot)

    def give_back(self, slot: Slot) -> None:
        """Uncount a run that has ended.  The memory of an older run was measured, not counted."""
        self._young.discard(slot)
        if self._is_young(slot, self._measured):
            self._free += slot.need

    def _is_young(self, slot: Slot, at: float) -> bool:
        return slot.since is not None and slot.since > at - _SETTLED_S
