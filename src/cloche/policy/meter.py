"""Counts what one key uses against the key's limits: requests, runs and sandboxes at once, and work per day."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from cloche.policy.refusals import TooMany

# The limits that a key can have, and how a refusal names them.
RATES = {
    "requests_per_second": "requests a second",
    "runs_at_once": "runs at once",
    "sandboxes": "sandboxes at once",
    "cpu_seconds_per_day": "CPU seconds a day",
    "bytes_per_day": "bytes a day",
}

_CPU, _BYTES = "cpu_seconds_per_day", "bytes_per_day"
_OF_TODAY = {_CPU: "CPU seconds", _BYTES: "bytes"}
_BURST_S = 2.0  # a key may make the requests of this much time in one burst
_SOON_S = 1.0  # the end of a run or a sandbox cannot be predicted
_DAY_S = 86400
_ROUNDING = 1e-6  # a client that waits exactly `retry_after` is not refused for a microsecond


class Meter:
    def __init__(self, limits: Mapping[str, float], *, now: Callable[[], float] = time.time) -> None:
        self.limits = limits
        self.runs = self.sandboxes = 0
        self._now = now
        rate = limits.get("requests_per_second")
        self._rate = rate
        self.used_at: float | None = None  # the time of the last request
        self._burst = max(1.0, _BURST_S * rate) if rate else 0.0
        self._tokens, self._filled = self._burst, now()
        self._day = self._today()
        self._cpu_s, self._bytes = 0.0, 0

    @property
    def cpu_s(self) -> float:
        self._turn_the_day()
        return self._cpu_s

    @property
    def bytes(self) -> int:
        self._turn_the_day()
        return self._bytes

    def in_use(self) -> dict[str, float]:
        """What the key uses of each limit now, or has used today."""
        return {"runs_at_once": self.runs, "sandboxes": self.sandboxes, _CPU: self.cpu_s, _BYTES: self.bytes}

    @property
    def limits_cpu(self) -> bool:
        """Whether the key has only so many CPU seconds a day."""
        return _CPU in self.limits

    @property
    def is_cpu_spent(self) -> bool:
        """Whether the key has used all its CPU seconds of today."""
        return self.limits_cpu and self.cpu_s >= self.limits[_CPU]

    @property
    def are_bytes_spent(self) -> bool:
        """Whether the key has used all its bytes of today."""
        return _BYTES in self.limits and self.bytes >= self.limits[_BYTES]

    def spent_message(self, name: str = _CPU) -> str:
        """Why the work of the key was stopped."""
        return f"The work was stopped: this key has used its {_number(self.limits[name])} {_OF_TODAY[name]} of today."

    def load_usage(self, cpu_s: float, byte_count: int) -> None:
        self._turn_the_day()
        self._cpu_s, self._bytes = cpu_s, byte_count

    def admit_request(self) -> None:
        now = self.used_at = self._now()
        if self._rate is None:
            return
        gained = max(0.0, now - self._filled) * self._rate  # a clock that is set back costs no tokens
        self._tokens, self._filled = min(self._burst, self._tokens + gained), now
        if self._tokens < 1 - _ROUNDING:
            wait = (1 - self._tokens) / self._rate
            self._refuse("requests_per_second", wait, f"Wait {_time(wait)} and ask again.")
        self._tokens -= 1

    def begin_run(self) -> None:
        """Count a run, or a command that goes on between requests.  `end_run` must follow, however it ends."""
        self.check_day()
        if self.runs >= self.limits.get("runs_at_once", self.runs + 1):
            self._refuse("runs_at_once", _SOON_S, "Wait until one of them has ended, or ask for a higher limit.")
        self.runs += 1

    def end_run(self, cpu_s: float = 0.0, byte_count: int = 0) -> None:
        self.runs -= 1
        self.use(cpu_s, byte_count)

    def begin_sandbox(self) -> None:
        """Count a new sandbox.  `end_sandbox` must follow."""
        if self.sandboxes >= self.limits.get("sandboxes", self.sandboxes + 1):
            self._refuse("sandboxes", _SOON_S, "End one that you no longer need, or ask for a higher limit.")
        self.sandboxes += 1

    def end_sandbox(self) -> None:
        self.sandboxes -= 1

    def use(self, cpu_s: float = 0.0, byte_count: int = 0) -> None:
        """Count work that has been done, such as that of a process that a run left behind."""
        self._turn_the_day()
        self._cpu_s += cpu_s
        self._bytes += byte_count

    def move(self, byte_count: int) -> None:
        """Count bytes that are about to be sent or received, or refuse them when the bytes of the day are used up.

        A stream calls this for every piece, so that it can exceed the limit by one piece at most.
        """
        if _BYTES in self.limits:
            self.check_day(_BYTES)
        self.use(byte_count=byte_count)

    def check_day(self, *names: str) -> None:
        """Refuse when a limit of the day is used up; of all of them, or of these."""
        self._turn_the_day()
        for name, used in ((_CPU, self._cpu_s), (_BYTES, self._bytes)):
            if (not names or name in names) and used >= self.limits.get(name, used + 1):
                wait = (self._day + 1) * _DAY_S - self._now()
                self._refuse(name, wait, f"The count starts again at midnight UTC, in {_time(wait)}.")

    def _refuse(self, name: str, retry_after: float, hint: str) -> NoReturn:
        raise TooMany(
            f"This key may have {_number(self.limits[name])} {RATES[name]}.", hint, limit=name, retry_after=retry_after
        )

    def _today(self) -> int:
        return int(self._now() // _DAY_S)

    def _turn_the_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day, self._cpu_s, self._bytes = today, 0.0, 0


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
