"""One bound for all logs of runs, commands and sandboxes that are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloche.service.event_log import EventLog

MAX_LIVE = 128 << 20  # characters
_STEP = 8  # the part of a log that is dropped at a time, so that the longest log is not looked for with every event


class LogSpace:
    """Counts the characters of logs that have not ended; past the bound, the longest log loses its oldest events."""

    def __init__(self, most: int = MAX_LIVE) -> None:
        self._most = most
        self._logs: set[EventLog] = set()
        self.used = 0

    def grew(self, log: EventLog, size: int) -> None:
        self._logs.add(log)
        self.used += size
        while self.used > self._most:
            longest = max(self._logs, key=_size)
            before = longest.size
            if longest.shrink(before - max(before // _STEP, self.used - self._most)) == before:
                return  # every log has only its newest event

    def shrank(self, size: int) -> None:
        self.used -= size

    def leave(self, log: EventLog) -> None:
        """Count a log no longer: it has ended, and its run or command counts for what is kept of those."""
        if log in self._logs:
            self._logs.discard(log)
            self.used -= log.size


def _size(log: EventLog) -> int:
    return log.size
