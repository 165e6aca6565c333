"""A fair, bounded queue: who wants to run waits for a place and for memory, and no key stands in another's way.

    async with admission.slot(caller.key_id, limits.memory_bytes, limits.cpu):
        …                                                               # `Busy` instead when there was no place in time

Keys take turns, so a key with a thousand runs waiting delays another key's first by one run.  When the queue is full,
the key that has most in it gives up its last place to one that has less.

A run counts for memory with little of its limit, since most need little; what it really takes shows in the next
measurement.  A run is always let in when none is running: nothing is ever stuck.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from cloche.policy.refusals import Busy
from cloche.service.host_memory import HostMemory

_LIKELY = 64 << 20  # bytes that a run is likely to need at most
_FRESH_S = 0.1  # how long a measurement of memory is good for, and how often it is repeated while memory is short
_FORGET_S = 1.0  # by then a run has taken the memory that it was let in with
_LONGEST_ADVICE_S = 60.0


@dataclass(frozen=True, slots=True)
class State:
    """How busy the server is."""

    running: int
    waiting: int
    waiting_by_key: dict[str, int]
    cpu: float
    """Cores that the runs have been promised."""


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
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs_at_once, self._queue, self._wait_s = runs_at_once, queue, wait_s
        self._now = now
        self._memory = _Memory(available_memory or HostMemory(), memory_reserve)
        self._turns: dict[str, deque[Slot]] = {}  # who waits, by key; the first key is next
        self._running = self._waiting = 0
        self._cpu = 0.0
        self._usual_s = 1.0  # how long runs have taken lately
        self._recheck: asyncio.TimerHandle | None = None
        self._closed = False

    def slot(self, key_id: str, memory_bytes: int, cpu: float = 1.0) -> Slot:
        """A place for one run: wait for it with `async with`."""
        return Slot(self, key_id, min(memory_bytes, _LIKELY), cpu)

    def state(self) -> State:
        """How many run and wait."""
        by_key = {key: len(slots) for key, slots in self._turns.items()}
        return State(self._running, self._waiting, by_key, self._cpu)

    def is_full(self) -> bool:
        """Would somebody who came now have to wait?"""
        return self._waiting > 0 or not self._has_room(Slot(self, "", _LIKELY, 0.0))

    def close(self) -> None:
        """Let nobody in any more; who waits is handed back with `Busy`."""
        self._closed = True
        for slots in list(self._turns.values()):
            for slot in list(slots):
                self._turn_away(slot, self._closing())

    # What slots call

    async def enter(self, slot: Slot) -> None:
        """Wait until the slot is let in."""
        if self._closed:
            raise self._closing()
        if not self._waiting and self._has_room(slot):
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
        except BaseException:  # cancelled, maybe after it was let in and before it could notice
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
        """The run has ended."""
        if slot.since is not None:
            self._usual_s += 0.1 * (self._now() - slot.since - self._usual_s)
            self._memory.give_back(slot)
            slot.since = None
            self._running -= 1
            self._cpu = self._cpu - slot.cpu if self._running else 0.0
            self._advance()

    def _advance(self) -> None:
        """Let in whoever is next, for as long as there is room."""
        while self._waiting:
            key = next(iter(self._turns))
            slot = self._turns[key][0]
            if not self._has_room(slot):
                break
            self._remove(slot)
            if key in self._turns:
                self._turns[key] = self._turns.pop(key)  # to the end: the others' turn comes first
            self._let_in(slot)
            slot.reply(None)
        if self._waiting and self._running < self._runs_at_once:
            # Memory is short, and nothing announces that there is more.
            if self._recheck is None:
                self._recheck = asyncio.get_running_loop().call_later(_FRESH_S, self._check_again)
        elif self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None

    def _check_again(self) -> None:
        self._recheck = None
        self._advance()

    def _has_room(self, slot: Slot) -> bool:
        if self._running >= self._runs_at_once:
            return False
        return not self._running or self._memory.has(slot.need, self._now())

    def _let_in(self, slot: Slot) -> None:
        self._running += 1
        self._cpu += slot.cpu
        slot.since = self._now()
        self._memory.take(slot)

    def _make_place_for(self, slot: Slot) -> None:
        """Have a place in the queue: a free one, or the last one of a key that has more of them."""
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
        """Who waited does not any more, and passes its turn on."""
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
        """Seconds until those who wait now are likely to have had their turn."""
        return min(_LONGEST_ADVICE_S, max(1.0, self._usual_s * (self._waiting + 1) / self._runs_at_once))


class Slot:
    """A run's place, taken for as long as the `async with` lasts."""

    __slots__ = ("_admission", "answer", "cpu", "key_id", "need", "since")

    def __init__(self, admission: Admission, key_id: str, need: int, cpu: float) -> None:
        self._admission, self.key_id, self.need, self.cpu = admission, key_id, need, cpu
        self.since: float | None = None  # when it was let in
        self.answer: asyncio.Future[Busy | None] | None = None  # to who waits: None is "come in"

    def reply(self, refusal: Busy | None) -> None:
        """Wake who waits."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(refusal)

    async def __aenter__(self) -> None:
        await self._admission.enter(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self)


class _Memory:
    """What is left for runs: measured now and then, less what those are likely to take that were let in lately."""

    def __init__(self, available: Callable[[], int | None], reserve: int) -> None:
        self._available, self._reserve = available, reserve
        self._left, self._measured = 0.0, float("-inf")
        self._young: set[Slot] = set()  # let in a moment ago: what they need does not show in a measurement yet

    def has(self, need: int, now: float) -> bool:
        """Is there enough for one more?"""
        if now - self._measured > _FRESH_S:
            available = self._available()
            self._young = {slot for slot in self._young if self._is_young(slot, now)}
            taken = self._reserve + sum(slot.need for slot in self._young)
            self._left, self._measured = float("inf") if available is None else available - taken, now
        return self._left >= need

    def take(self, slot: Slot) -> None:
        """One is let in."""
        self._left -= slot.need
        self._young.add(slot)

    def give_back(self, slot: Slot) -> None:
        """One has ended; what an older one had was measured and not counted."""
        self._young.discard(slot)
        if self._is_young(slot, self._measured):
            self._left += slot.need

    def _is_young(self, slot: Slot, at: float) -> bool:
        return slot.since is not None and slot.since > at - _FORGET_S
