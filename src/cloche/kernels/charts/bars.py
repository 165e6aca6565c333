"""Bars and histograms."""

from __future__ import annotations

from itertools import pairwise

from cloche.kernels.charts.chart_limits import ARTISTS, POINTS, thin
from cloche.kernels.charts.error_bars import ranges
from cloche.kernels.charts.values import is_near, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents, Chart


def read(container: Any, contents: AxesContents) -> None:
    """Read what `bar`, `barh` or `hist` drew."""
    patches = [patch for patch in container.patches if patch.get_visible()][:ARTISTS]
    if not patches:
        return
    group = contents.label(container, patches[0])
    is_lying = container.orientation == "horizontal"
    contents.more["orientation"] = "horizontal" if is_lying else "vertical"
    axis = contents.y if is_lying else contents.x
    spans = [_span(patch, is_lying) for patch in patches]
    places = [float(start + width / 2) for start, width, _, _ in spans]
    edges = [(float(start), float(start + width)) for start, width, _, _ in spans]
    is_binned = len(edges) > 1 and all(is_near(a[1], b[0], a[1] - a[0]) for a, b in pairwise(edges))
    names = axis.names(places, edges if is_binned else None)
    if is_binned and not axis.is_fixed:
        contents.more["kind"] = "histogram"
    errors = ranges(container.errorbar, "x" if is_lying else "y")
    for n in thin(len(patches), POINTS):
        _, _, base, value = spans[n]
        bar: Chart = {"label": names[n], "group": group, "value": plain(value)}
        if base:
            bar["base"] = plain(base)
        if len(errors) == len(patches):
            bar["range"] = errors[n]
        contents.kinds["bar"].append(bar)
        contents.bars.append((bar, places[n]))


def _span(patch: Any, is_lying: bool) -> tuple[Any, Any, Any, Any]:
    """Return a bar's start, width, base and length."""
    if is_lying:
        return patch.get_y(), patch.get_height(), patch.get_x(), patch.get_width()
    return patch.get_x(), patch.get_width(), patch.get_y(), patch.get_height()


def read_steps(patch: Any, contents: AxesContents) -> None:
    """Read what `stairs` drew: a histogram as one line."""
    values, edges, _ = patch.get_data()
    group = contents.label(patch)
    contents.more |= {"orientation": "vertical", "kind": "histogram"}
    names = contents.x.names(list(edges[:-1]), list(pairwise(edges)))
    for n in thin(len(values), POINTS):
        contents.kinds["bar"].append({"label": names[n], "group": group, "value": plain(values[n])})
