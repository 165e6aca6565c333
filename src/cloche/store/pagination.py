"""Pages of a list, newest first.  A cursor is an opaque text that names the last row of a page."""

from __future__ import annotations

import base64
import json
from math import isfinite
from typing import Any

from sqlalchemy import Column, Select, tuple_

from cloche.errors import InvalidRun


def page(query: Select[Any], time: Column[float], name: Column[str], limit: int, after: str | None) -> Select[Any]:
    """Limit the query to one page, plus one row that shows whether there is a next page."""
    if limit < 1:
        raise InvalidRun(f"limit must be at least 1, not {limit}.")
    if after is not None:
        query = query.where(tuple_(time, name) < tuple_(*_place(after)))
    return query.order_by(time.desc(), name.desc()).limit(limit + 1)


def cursor(time: float, name: str) -> str:
    """Return the cursor that continues after this row."""
    return base64.urlsafe_b64encode(json.dumps([time, name]).encode()).decode().rstrip("=")


def _place(after: str) -> tuple[float, str]:
    try:
        time, name = json.loads(base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True))
        if type(time) in (int, float) and isfinite(time) and type(name) is str:
            return float(time), name
    except (ValueError, TypeError, RecursionError, OverflowError):
        pass
    raise InvalidRun("The cursor in `after` is not valid.", hint="Pass the `next` of the previous page, unchanged.")
