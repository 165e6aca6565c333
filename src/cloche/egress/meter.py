"""Bounds how fast a sandbox's bytes pass, and how many pass in all.

One meter belongs to one sandbox, and all its connections share it, in both directions.
"""

from __future__ import annotations

import asyncio
from collections import deque

_BURST_S = 0.05  # of the rate: as many bytes may pass at once after a pause
_LATE_S = 0.1  # of the rate: a process that was busy for as long makes up for it
_TURN_S = 0.005  # of the rate: as many bytes a waiter gets before it is the next one's turn
_MAX_TURN = 1 << 20


class Count:
    """The bytes that have passed: up from the client, and down to it."""

    def __init__(self) -> None:
        self.up = 0
        self.down = 0
        self.is_slowed = False  # by the rate

    def refuse(self, rule: str, reason: str) -> None:
        """Note that the connection was refused after all, by a rule or by none; before its client can know of it."""


class Meter:
    """Gives leave for bytes to pass: a token bucket for the rate, and an exact count for the quota."""

    def __init__(self, rate: int | None = None, quota: int | None = None) -> None:
        self.used = 0
        self._rate, self._quota = rate, quota
        self._tokens = (rate or 0) * _BURST_S
        self._counted_at = 0.0
        self._waiting: deque[tuple[asyncio.Future[int], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._is_shared = False  # several want more than there is: each gets its turn, and no more

    @property
    def is_unbounded(self) -> bool:
        """Whether `take` gives everything at once."""
        return self._rate is None and self._quota is None

    async def take(self, wanted: int, count: Count | None = None) -> int:
        """Wait until some bytes may pass; return how many of the wanted ones may pass now, or 0: the quota is used up.

        Ask when there is something to pass, and give back at once whatever did not pass: leave that is kept is missing
        to the others.  `count` learns that its bytes had to wait.
        """
        if wanted <= 0:
            raise ValueError("Ask for one byte or more.")
        if self._rate is None or self.is_used_up:
            return self._grant(wanted)
        if not self._waiting and not self._is_shared:
            self._refill(_BURST_S)
            if self._tokens >= min(wanted, self._turn()):
                return self._grant(min(wanted, int(self._tokens)))
        if count is not None:
            count.is_slowed = True
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((granted, wanted))
        if self._timer is None:
            self._serve_soon()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.give_back(granted.result())
            raise

    def give_back(self, count: int) -> None:
        """Return the leave for bytes that did not pass."""
        self.correct(-count)

    def correct(self, count: int) -> None:
        """Count bytes that passed without leave while there was no bound, or with fewer than zero, give leave back."""
        self.used += count
        if self._rate is not None and count:
            self._tokens -= count
            if self._waiting:
                self._serve_soon()

    def change(self, rate: int | None, quota: int | None) -> None:
        """Replace both bounds at once, also for those who wait; the used bytes stay counted."""
        self._refill(_BURST_S)
        self._tokens = min(self._tokens, (rate or 0) * _BURST_S)
        self._rate, self._quota = rate, quota
        self._serve()

    @property
    def is_used_up(self) -> bool:
        """Whether the quota is used up."""
        return self._quota is not None and self.used >= self._quota

    def _grant(self, count: int) -> int:
        if self._quota is not None:
            count = max(0, min(count, self._quota - self.used))
        self.used += count
        if self._rate is not None:
            self._tokens -= count
        return count

    def _turn(self) -> int:
        return max(1, min(_MAX_TURN, int((self._rate or 0) * _TURN_S)))

    def _refill(self, most_s: float) -> None:
        now = asyncio.get_running_loop().time()
        if self._rate is not None:
            self._tokens = min(self._tokens + (now - self._counted_at) * self._rate, self._rate * most_s)
        self._counted_at = now

    def _serve_soon(self) -> None:
        """Serve after those who had their turn just now have got in line again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Give the waiters their turns, first come, first served, and come back when the next turn is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_shared = len(self._waiting) > 1
        if self._waiting:
            self._refill(_LATE_S)
        while self._waiting:
            granted, wanted = self._waiting[0]
            if not granted.done():
                if self._rate is None or self.is_used_up:
                    count = wanted
                else:
                    turn = min(wanted, self._turn())
                    if self._tokens < turn:
                        delay = (turn - self._tokens) / self._rate
                        self._timer = asyncio.get_running_loop().call_later(delay, self._serve)
                        return
                    count = turn if self._is_shared else min(wanted, int(self._tokens))
                granted.set_result(self._grant(count))
            self._waiting.popleft()
