"""Collects the elements of one axes while its artists are read."""

from __future__ import annotations

from cloche.kernels.charts.axis import Axis
from cloche.kernels.charts.chart_limits import thin
from cloche.kernels.charts.legend import color_of, names_by_color
from cloche.kernels.charts.values import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Chart = dict[str, Any]


class AxesContents:
    """The elements of an axes by kind, and the other fields of its chart."""

    def __init__(self, axes: Any, limit: int) -> None:
        self.axes = axes
        self.limit = limit  # points per line
        self.x, self.y = Axis(axes.xaxis), Axis(axes.yaxis)
        self.legend = names_by_color(axes)
        # The first kind in this order that is not empty gives the chart its type.
        self.kinds: dict[str, list[Chart]] = {"pie": [], "box_and_whisker": [], "bar": [], "line": [], "scatter": []}
        self.bars: list[tuple[Chart, float]] = []  # with the position of each bar
        self.whiskers: list[tuple[str, float, float, float, Any]] = []  # lines that look like seaborn's error bars
        self.references: list[Chart] = []
        self.more: Chart = {}
        self.used: set[int] = set()  # artists that belong to something already described

    def add_points(self, xs: Any, ys: Any, label: str, is_scatter: bool = False, **more: Any) -> Chart:
        """Add a line, or unconnected points."""
        total = min(len(xs), len(ys))
        points = [[self.x.read(xs[n]), self.y.read(ys[n])] for n in thin(total, self.limit)]
        element = {"label": label, "points": points, **more}
        if total > len(points):
            element["points_total"] = total
        if points:
            self.kinds["scatter" if is_scatter else "line"].append(element)
        return element

    def count(self, kind: str) -> int:
        """Return the number of points that the elements of a kind were drawn with."""
        return sum(element.get("points_total", len(element["points"])) for element in self.kinds[kind])

    def label(self, artist: Any, colored: Any = None) -> str:
        """Return an artist's name: its own, or the legend's for its colour (or for that of one of its parts)."""
        label = text(artist.get_label()) or ""
        if label and not label.startswith("_"):
            return label
        key = color_of(artist if colored is None else colored) if self.legend else None
        return self.legend.get(key, "") if key is not None else ""

    def is_data(self, artist: Any) -> bool:
        """Say whether an artist is placed by its data, not by a position in the picture."""
        return bool(artist.get_transform().contains_branch(self.axes.transData))
