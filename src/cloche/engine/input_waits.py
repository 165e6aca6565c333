"""Bounds the reports from a sandbox that a program waits for input."""

from __future__ import annotations

from cloche.model.events import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InputWaits:
    """Accepts one wait, and one end of it, for each piece of input: code could report any number of them."""

    def __init__(self) -> None:
        self._is_waiting, self._may_wait = False, True

    def input_sent(self) -> None:
        """Allow another wait."""
        self._may_wait = True

    def take(self, report: dict[str, Any]) -> Waiting | None:
        """Return the event for a report, if it says something new."""
        is_waiting = report.get("waiting") is True
        if is_waiting == self._is_waiting or (is_waiting and not self._may_wait):
            return None
        self._is_waiting = is_waiting
        self._may_wait = self._may_wait and not is_waiting
        return Waiting(is_waiting)
