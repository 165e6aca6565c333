"""Finds box plots in the lines that they are drawn with.

`Axes.bxp`, which all libraries use, adds for each box: the box, two whiskers, two caps, the median, the mean, the
outliers.  All but whiskers and median may be missing.
"""

from __future__ import annotations

from cloche.kernels.charts.chart_limits import POINTS, thin
from cloche.kernels.charts.values import NO_LINE, is_near, is_same, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents, Chart

_CORNERS = (2, 5, 6, 11, 12)  # number of points of a box's first part: a whisker, or the box with or without notches


def read_all(artists: list[Any], contents: AxesContents) -> None:
    """Read every box among the artists."""
    parts = [artist for artist in artists if type(artist).__name__ in ("Line2D", "PathPatch")]
    lines = [part.get_xydata() if hasattr(part, "get_xydata") else part.get_path().vertices for part in parts]
    at = 0
    while at < len(parts):
        found = _find(parts, lines, at) if len(lines[at]) in _CORNERS else None
        if found is None:
            at += 1
            continue
        row, box, end = found
        group = contents.label(parts[at]) if type(parts[at]).__name__ == "PathPatch" else ""
        name = (contents.y if row.is_lying else contents.x).names([row.place])[0]
        contents.more["orientation"] = "horizontal" if row.is_lying else "vertical"
        described = {"label": name, **({"group": group} if group else {}), **box}
        if described not in contents.kinds["box_and_whisker"]:  # the same box may be drawn twice, in other colours
            contents.kinds["box_and_whisker"].append(described)
        contents.used |= {id(part) for part in parts[at:end]}
        at = end


def _find(parts: list[Any], lines: list[Any], start: int) -> tuple[_Row, Chart, int] | None:
    """Return the box that starts here, and the index after its last artist."""
    at = start if len(lines[start]) == 2 else start + 1
    whiskers = lines[at : at + 2]
    if len(whiskers) < 2 or any(len(line) != 2 for line in whiskers):
        return None
    for across in (0, 1):
        row = _Row(parts, lines, across, float(whiskers[0][0][across]))
        if all(float(point[across]) == row.place for line in whiskers for point in line):
            found = _read(row, at)
            if found is not None:
                return row, *found
    return None


class _Row:
    """The artists read as parts of a box: its position is on one axis, its values are along the other."""

    def __init__(self, parts: list[Any], lines: list[Any], across: int, place: float) -> None:
        self.place = place
        self.is_lying = across == 1
        self._parts = parts
        self._lines = lines
        self._across = across

    def values(self, n: int) -> list[float]:
        """Return the values of a line's points."""
        return [float(point[1 - self._across]) for point in self._lines[n]]

    def is_bar(self, n: int) -> bool:
        """Say whether the artist is a straight line across the box's middle."""
        if n >= len(self._parts) or len(self._lines[n]) != 2 or not hasattr(self._parts[n], "get_xydata"):
            return False
        left, right = (float(point[self._across]) for point in self._lines[n])
        return left != right and is_near((left + right) / 2, self.place) and is_same(*self.values(n))

    def is_marks(self, n: int) -> bool:
        """Say whether the artist is a column of unconnected marks."""
        if n >= len(self._parts) or not hasattr(self._parts[n], "get_linestyle"):
            return False
        is_unconnected = self._parts[n].get_linestyle() in NO_LINE
        return is_unconnected and all(float(point[self._across]) == self.place for point in self._lines[n])


def _read(row: _Row, at: int) -> tuple[Chart, int] | None:
    """Return the box whose first whisker is here, and the index after its last artist."""
    (q1, low), (q3, high) = row.values(at), row.values(at + 1)
    at += 2
    if all(row.is_bar(at + n) for n in range(3)) and is_same(row.values(at)[0], low):
        at += 2  # the caps
    if not row.is_bar(at):
        return None
    median = row.values(at)[0]
    if not (q1 <= median <= q3 or median != median):
        return None
    at += 1
    mean = None
    if row.is_bar(at) and q1 <= row.values(at)[0] <= q3:  # the mean, drawn as a line
        mean = row.values(at)[0]
        at += 1
    marks: list[list[float]] = []
    while len(marks) < 2 and row.is_marks(at):
        marks.append(row.values(at))
        at += 1
    if marks and len(marks[0]) == 1 and (len(marks) == 2 or low <= marks[0][0] <= high):
        mean = marks.pop(0)[0]
    outliers = sorted(marks[-1]) if marks else []
    numbers = {"min": low, "first_quartile": q1, "median": median, "third_quartile": q3, "max": high}
    box: Chart = {key: plain(value) for key, value in numbers.items()}
    box["outliers"] = [plain(outliers[n]) for n in thin(len(outliers), POINTS // 10)]
    if mean is not None:
        box["mean"] = plain(mean)
    return box, at
