"""Refusals: an unknown caller, a missing scope, a used-up limit, a busy server, a sandbox that has ended."""

from __future__ import annotations

from typing import Literal

from cloche.errors import Gone, Refused


class Unauthorized(Refused):
    """The request needs a key and has none that this server knows; `sent` is what it has instead."""

    code = "unauthorized"

    def __init__(self, message: str, hint: str = "", *, sent: Literal["nothing", "key", "cookie"] = "nothing") -> None:
        super().__init__(message, hint)
        self.sent = sent


class Forbidden(Refused):
    """The caller is known and may not do this."""

    code = "forbidden"


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


class Ended(Gone):
    """The caller's sandbox is not alive any more."""

    code = "gone"
