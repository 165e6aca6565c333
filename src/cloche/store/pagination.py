"""Pages of a list, newest first: where one ends, as a text that the next is asked for with."""

from __future__ import annotations

import base64
import json
from math import isfinite
from typing import Any

from sqlalchemy import Column, Select, tuple_

from cloche.errors import InvalidRun


def page(query: Select[Any], time: Column[float], name: Column[str], limit: int, after: str | None) -> Select[Any]:
    """A page of the query, and one row more if there is a next one."""
    if limit < 1:
        raise InvalidRun(f"limit must be at least 1, not {limit}.")
    if after is not None:
        query = query.where(tuple_(time, name) < tuple_(*_place(after)))
    return query.order_by(time.desc(), name.desc()).limit(limit + 1)


def cursor(time: float, name: str) -> str:
    """What asks for everything older than this."""
    return base64.urlsafe_b64encode(json.dumps([time, name]).encode()).decode().rstrip("=")


def _place(after: str) -> tuple[float, str]:
    try:
        time, name = json.loads(base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True))
        if type(time) in (int, float) and isfinite(time) and type(name) is str:
            return float(time), name
    except (ValueError, TypeError, RecursionError, OverflowError):
        pass
    raise InvalidRun("This is not the place of any page.", hint="Give what the page before it ended with, unchanged.")
