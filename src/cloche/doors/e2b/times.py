"""Times as E2B's clients see them: in microseconds, or in whole seconds where a client rounds them itself.

A client sends times back that it got from us, so every time is rounded before it is compared, and not only when it is
shown.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cloche.doors.e2b.answers import Refusal

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant(when: float) -> datetime:
    """Return a time in whole microseconds."""
    return datetime.fromtimestamp(when, UTC)


def moment(when: float) -> str:
    """Format a time as E2B does."""
    return instant(when).isoformat().replace("+00:00", "Z")


def read_time(text: str, name: str) -> datetime:
    """Read a time that a client sent; one without a zone is in UTC, as all times that we show."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(400, f"{name} is not a time.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def to_microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(number: int) -> datetime:
    """Return the time so many microseconds after the epoch; raises OverflowError."""
    return _EPOCH + number * _MICROSECOND


def is_within(when: float, start: float, end: float) -> bool:
    """Return whether a time is in a range of whole seconds: some clients round them up, others down."""
    return start - 1 < when < end + 1
