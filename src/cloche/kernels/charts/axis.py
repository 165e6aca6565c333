"""One axis: how to read its values, and its ticks."""

from __future__ import annotations

import math
import re
import sys
from itertools import pairwise

from cloche.kernels.charts.chart_limits import ARTISTS, TEXT, TICKS, thin
from cloche.kernels.charts.values import is_number, plain, short, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Read = Callable[[Any], Any]


class Axis:
    """Converts the axis's values to JSON (`read`), and knows the labels of fixed ticks."""

    def __init__(self, axis: Any) -> None:
        self._axis = axis
        self.read, self._scale = _reader(axis)
        self.is_fixed = type(axis.get_major_locator()).__name__ in ("FixedLocator", "StrCategoryLocator")
        try:
            places = [float(place) for place in axis.get_majorticklocs()[:ARTISTS]]
            labels = axis.get_major_formatter().format_ticks(places)
            ticks = [(place, _tick_text(label)) for place, label in zip(places, labels, strict=False)]
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            self._in_view = [tick for tick in ticks if low - slack <= tick[0] <= high + slack]
        except Exception:  # a formatter written by the user
            ticks = self._in_view = []
        self._named = sorted(ticks) if self.is_fixed else []

    def described(self, name: str) -> dict[str, Any]:
        """Return the chart's field "x" or "y"."""
        title = text(self._axis.label.get_text())
        ticks = [self._in_view[n] for n in thin(len(self._in_view), TICKS)]
        return {
            f"{name}_label": title,
            f"{name}_unit": _unit(title),
            f"{name}_scale": self._scale,
            f"{name}_ticks": [self.read(place) for place, _ in ticks],
            f"{name}_tick_labels": [label for _, label in ticks],
        }

    def names(self, places: list[float], edges: list[tuple[float, float]] | None = None) -> list[str]:
        """Return the labels at these positions: of the ticks if each has one, else numbers, dates or intervals."""
        gaps = [b[0] - a[0] for a, b in pairwise(self._named)]
        reach = min((gap for gap in gaps if gap > 0), default=1.0) / 2
        if self._named and len(places) <= len(self._named):
            nearest = [min(self._named, key=lambda tick, at=place: abs(tick[0] - at)) for place in places]  # type: ignore[misc]
            if len(set(nearest)) == len(places) and all(
                abs(tick[0] - place) <= reach * 1.001 and tick[1] for tick, place in zip(nearest, places, strict=True)
            ):
                return [label for _, label in nearest]
        if edges is not None:
            return [f"{short(self.read(low))} to {short(self.read(high))}" for low, high in edges]
        return [short(self.read(place)) for place in places]


def _reader(axis: Any) -> tuple[Read, str]:
    """Return the function that converts the axis's values to JSON, and the axis's scale."""
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    names = f"{type(converter).__name__} {type(axis.get_major_formatter()).__name__}"
    frequency = getattr(axis, "freq", None)
    if "Category" in names:
        return _categories(axis), "categorical"
    if "TimeSeries" in names and frequency is not None and "pandas" in sys.modules:
        return _periods(frequency), "datetime"
    if "Date" in names:
        return _dates(), "datetime"
    return plain, str(axis.get_scale())


def _categories(axis: Any) -> Read:
    categories = {int(place): name for name, place in axis.units._mapping.items()}

    def read(value: Any) -> Any:  # the nearest: seaborn spreads points that would overlap
        if not is_number(value) or not math.isfinite(value):
            return plain(value)
        return text(categories.get(round(value), plain(value)))

    return read


def _periods(frequency: Any) -> Read:
    from pandas import Period

    def read(value: Any) -> Any:
        if not is_number(value) or not math.isfinite(value):
            return plain(value)
        return plain(Period(ordinal=int(value), freq=frequency))

    return read


def _dates() -> Read:
    from datetime import datetime, timedelta

    from matplotlib.dates import get_epoch

    epoch = datetime.fromisoformat(get_epoch()).replace(tzinfo=None)

    def read(value: Any) -> Any:
        if not is_number(value):
            return plain(value)
        try:
            return (epoch + timedelta(days=float(value))).isoformat()
        except (OverflowError, ValueError):
            return None

    return read


def _tick_text(label: Any) -> str:
    """Return a tick's label without the TeX markup that Matplotlib's formatters put around numbers."""
    bare = re.sub(r"\\mathdefault\{(.*)\}", r"\1", str(label)[:TEXT])
    return re.sub(r"\^\{([^{}]*)\}", r"^\1", bare.strip("$")) if bare != label else bare


def _unit(label: str | None) -> str | None:
    found = re.findall(r"\(([^()]+)\)|\[([^\[\]]+)\]", label or "")
    return (found[-1][0] or found[-1][1]).strip() or None if found else None
