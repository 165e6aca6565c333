"""What has been read of an axes so far: every kind of artist adds its part."""

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
    """The elements of an axes by kind, and what else its chart will say."""

    def __init__(self, axes: Any, limit: int) -> None:
        self.axes = axes
        self.limit = limit  # of points in a line
        self.x, self.y = Axis(axes.xaxis), Axis(axes.yaxis)
        self.legend = names_by_color(axes)
        # In this order, the first kind that there is gives the chart its type.
        self.kinds: dict[str, list[Chart]] = {"pie": [], "box_and_whisker": [], "bar": [], "line": [], "scatter": []}
        self.bars: list[tuple[Chart, float]] = []  # and where each stands
        self.whiskers: list[tuple[str, float, float, float, Any]] = []  # lines that look like seaborn's error bars
        self.references: list[Chart] = []
        self.more: Chart = {}
        self.used: set[int] = set()  # artists that are part of something described already

    def add_points(self, xs: Any, ys: Any, label: str, is_scatter: bool = False, **more: Any) -> Chart:
        """A line, or points that nothing connects."""
        total = min(len(xs), len(ys))
        points = [[self.x.read(xs[n]), self.y.read(ys[n])] for n in thin(total, self.limit)]
        element = {"label": label, "points": points, **more}
        if total > len(points):
            element["points_total"] = total
        if points:
            self.kinds["scatter" if is_scatter else "line"].append(element)
        return element

    def count(self, kind: str) -> int:
        """How many points the elements of a kind were drawn with."""
        return sum(element.get("points_total", len(element["points"])) for element in self.kinds[kind])

    def label(self, artist: Any, colored: Any = None) -> str:
        """What an artist is called: by itself, or by the legend for its colour (or that of a part of it)."""
        label = text(artist.get_label()) or ""
        if label and not label.startswith("_"):
            return label
        key = color_of(artist if colored is None else colored) if self.legend else None
        return self.legend.get(key, "") if key is not None else ""

    def is_data(self, artist: Any) -> bool:
        """Does it stand where its values say, not at a place of the picture?"""
        return bool(artist.get_transform().contains_branch(self.axes.transData))
