"""Error bars, described as ranges of the points or bars that they belong to."""

from __future__ import annotations

from cloche.kernels.charts.chart_limits import thin
from cloche.kernels.charts.values import NO_LINE, array, is_between, is_near, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents


def read(container: Any, contents: AxesContents) -> None:
    """Read what `errorbar` drew: a line or points, and a range around each."""
    line, caps, bars = container
    contents.used |= {id(part) for part in (*caps, *bars)}
    if line is None or not line.get_visible():
        return
    contents.used.add(id(line))
    xs, ys = array(line.get_xdata(orig=True)), array(line.get_ydata(orig=True))
    is_scatter = line.get_linestyle() in NO_LINE
    element = contents.add_points(xs, ys, contents.label(container, line), is_scatter)
    for axis, key in (("y", "range"), ("x", "x_range")):
        found = ranges(container, axis)
        if found and len(found) == len(xs):
            element[key] = [found[n] for n in thin(len(xs), contents.limit)]


def ranges(container: Any, axis: str) -> list[list[Any]]:
    """Return the ends of each error bar along an axis."""
    if container is None or not getattr(container, f"has_{axis}err"):
        return []
    segments = container[2][-1 if axis == "y" else 0].get_segments()
    along = 1 if axis == "y" else 0
    return [[plain(line[0][along]), plain(line[-1][along])] if len(line) else [None, None] for line in segments]


def find_whisker(places: Any) -> tuple[str, float, float, float] | None:
    """Recognise a straight line along an axis, with or without caps; returns its axis, position and ends."""
    inner = places if len(places) == 2 else places[2:4]
    for across, axis in ((0, "x"), (1, "y")):
        at, ends = float(inner[0][across]), sorted(float(place[1 - across]) for place in inner)
        if at == float(inner[1][across]) and (
            len(places) == 2 or is_near((places[0][across] + places[1][across]) / 2, at)
        ):
            return axis, at, ends[0], ends[1]
    return None


def attach_whiskers(contents: AxesContents) -> None:
    """Attach seaborn's error bars, which are ordinary lines, to the bar or point that each goes through."""
    for axis, place, low, high, line in contents.whiskers:
        bar = next((bar for bar, at in contents.bars if is_near(at, place) and "range" not in bar), None)
        if bar is not None:
            bar["range"] = [plain(low), plain(high)]
        elif not _attach_to_point(axis, place, low, high, contents):
            contents.add_points(line.get_xdata(), line.get_ydata(), "")


def _attach_to_point(axis: str, place: float, low: float, high: float, contents: AxesContents) -> bool:
    on, along, across = (contents.x, contents.y, 0) if axis == "x" else (contents.y, contents.x, 1)
    where, ends = on.read(place), [along.read(low), along.read(high)]
    for element in contents.kinds["line"] + contents.kinds["scatter"]:
        at = next((n for n, point in enumerate(element["points"]) if point[across] == where), None)
        if at is not None and is_between(ends[0], element["points"][at][1 - across], ends[1]):
            element.setdefault("range", [None] * len(element["points"]))[at] = ends
            return True
    return False
