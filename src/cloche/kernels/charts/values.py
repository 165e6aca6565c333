"""Converts values of any library to JSON, and compares numbers."""

from __future__ import annotations

import math

from cloche.kernels.charts.chart_limits import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_LINE = ("None", "none", " ", "")  # Matplotlib's line styles of unconnected points


def array(data: Any) -> Any:
    """Return a NumPy array, with NaN for masked values."""
    import numpy

    if isinstance(data, numpy.ma.MaskedArray):
        return data.astype(float).filled(numpy.nan)
    return numpy.asarray(data)


def plain(value: Any) -> Any:
    """Convert a value to JSON: numbers to floats, dates to ISO text, None if it is not finite."""
    if is_number(value):
        number = float(value)
        return number if math.isfinite(number) else None
    if value is None or isinstance(value, str):
        return value if value is None else value[:TEXT]
    if hasattr(value, "start_time"):  # pandas.Period
        value = value.start_time
    elif type(value).__name__ == "datetime64":
        value = value.astype("datetime64[us]").item()
    written = str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
    return None if written in ("NaT", "None", "nan", "<NA>") else written[:TEXT]


def short(value: Any) -> str:
    """Format a plain value as a label."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).removesuffix("T00:00:00")[:TEXT]


def text(value: Any) -> str | None:
    """Return a text of bounded length; None for an empty one."""
    return None if value is None else str(value)[:TEXT] or None


def is_number(value: Any) -> bool:
    """Say whether a value is a number of Python or of a library."""
    if isinstance(value, (int, float)):
        return True
    # NumPy's strings and dates have the method, too.
    return hasattr(value, "__float__") and not isinstance(value, (str, bytes)) and not _is_date(value)


def _is_date(value: Any) -> bool:
    return hasattr(value, "isoformat") or type(value).__name__ in ("datetime64", "timedelta64")


def is_near(a: float, b: float, scale: float = 1.0) -> bool:
    """Say whether two numbers are equal except for rounding."""
    return bool(abs(a - b) <= 1e-6 * max(abs(scale), 1e-9 * abs(a))) or a == b


def is_same(a: float, b: float) -> bool:
    """Say whether two values are equal, or both NaN."""
    return bool(a == b or (a != a and b != b))


def is_between(low: Any, value: Any, high: Any) -> bool:
    """Say whether a value is between two others, as far as these are known."""
    if not (is_number(low) and is_number(value) and is_number(high)):
        return True
    slack = 1e-9 * max(abs(low), abs(high))
    return bool(low - slack <= value <= high + slack)
