"""Decides when a nursery ends by itself: an environment's, once it is replaced or nobody has used it for long."""

from __future__ import annotations

from _socket import SHUT_RD
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls import sockets


class Retirement:
    """Whether a nursery takes no more claims, and ends with its last sandbox."""

    def __init__(self, idle_s: float | None) -> None:
        self._idle_s = idle_s  # after so long without use; None: never
        self.begun = False

    @property
    def can_come(self) -> bool:
        """Whether the nursery may ever end by itself."""
        return self.begun or self._idle_s is not None

    def first_use(self) -> float:
        """The time from which the first idle time counts."""
        return 0.0 if self._idle_s is None else monotonic()

    def is_due(self, last_use: float) -> bool:
        """Return whether nobody has used the nursery for long enough."""
        return self._idle_s is not None and not self.begun and monotonic() - last_use >= self._idle_s

    def begin(self, control: sockets.Socket) -> None:
        """Take no more claims: an engine that sends one gets an error, and starts another nursery."""
        self.begun = True
        control.shutdown(SHUT_RD)

    def wait_s(self, last_use: float) -> float | None:
        """Return the time until `is_due` may say so."""
        return None if self._idle_s is None else last_use + self._idle_s - monotonic() + 0.1
