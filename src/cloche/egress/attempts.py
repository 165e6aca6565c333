"""The record of a sandbox's attempts to reach hosts: bounded, and readable while connections are open."""

from __future__ import annotations

from collections import deque
from itertools import islice
from time import monotonic, time
from typing import Any

from cloche.egress.meter import Count

MAX_KEPT = 10_000
MAX_HOST, MAX_REASON = 300, 1000  # characters
_SLOWED = "the rate of the network policy slowed it down"


class Attempt(Count):
    """One attempt.  The relays count its bytes in `up` and `down` while they pass."""

    def __init__(self, number: int, host: str, port: int) -> None:
        super().__init__()
        self.number, self.host, self.port = number, host[:MAX_HOST], port
        self.is_allowed, self.rule, self.reason, self.allow = False, "", "", ""
        self.time, self.began = time(), monotonic()
        self._ended: float | None = None

    def refuse(self, rule: str, reason: str) -> None:
        if not self.up:  # otherwise earlier requests have passed
            self.is_allowed, self.rule, self.reason = False, rule or self.rule, reason

    def end(self) -> None:
        if self._ended is None:
            self._ended = monotonic()

    def as_dict(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "port": self.port,
            "verdict": "allowed" if self.is_allowed else "refused",
            "rule": self.rule,
            "reason": self.reason[:MAX_REASON] or (_SLOWED if self.is_slowed else ""),
            "bytes_up": self.up,
            "bytes_down": self.down,
            "duration": (self._ended or monotonic()) - self.began,
            "time": self.time,
            "number": self.number,
            "allow": self.allow,
        }


class Attempts:
    """All attempts of one sandbox, of which the last ones are kept."""

    def __init__(self) -> None:
        self._kept: deque[Attempt] = deque(maxlen=MAX_KEPT)
        self.count = 0

    def begin(self, host: str, port: int) -> Attempt:
        self.count += 1
        attempt = Attempt(self.count, host, port)
        self._kept.append(attempt)
        return attempt

    def since(self, number: int, after: float, most: int) -> list[dict[str, Any]]:
        """The attempts with a higher number that began after this monotonic time: the oldest of them, in order."""
        first = self.count - len(self._kept)  # their numbers are one after the other
        later = islice(self._kept, max(0, number - first), None)
        return [attempt.as_dict() for attempt in islice((each for each in later if each.began >= after), most)]
