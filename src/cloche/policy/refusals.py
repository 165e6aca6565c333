"""What a busy server answers: a `Refused` that says when to come back."""

from __future__ import annotations

from cloche.errors import Refused


class TooMany(Refused):
    """A key has used up what its limit grants; `retry_after` is in seconds."""

    code = "too_many"

    def __init__(self, message: str, hint: str = "", *, limit: str, retry_after: float) -> None:
        super().__init__(message, hint)
        self.limit = limit
        self.retry_after = retry_after


class Busy(Refused):
    """The server has no room for another run; `retry_after` is in seconds."""

    code = "busy"

    def __init__(self, message: str, hint: str = "", *, retry_after: float) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after
