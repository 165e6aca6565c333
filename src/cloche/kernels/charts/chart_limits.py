"""Limits of a figure's description."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

POINTS = 1_000  # of a line; bars or slices of an axes
POINTS_IN_ALL = 20_000
ELEMENTS = 50
AXES = 16
TICKS = 100
TEXT = 500
ARTISTS = 10_000  # examined in one axes
CELLS = 400  # of a heatmap that is given in full


def thin(total: int, limit: int) -> Iterable[int]:
    """Return evenly spread indexes, including the first and the last."""
    if total <= limit:
        return range(total)
    return [round(n * (total - 1) / (limit - 1)) for n in range(limit)]


def cut(chart: dict[str, Any], most: int, total: int = 0) -> dict[str, Any]:
    """Limit the number of elements of a chart, and note how many there were."""
    total = max(total, len(chart["elements"]))
    if total > most:
        chart["elements"] = chart["elements"][:most]
        chart["elements_total"] = total
    return chart
