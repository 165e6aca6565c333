"""Lines, points, and lines across the axes."""

from __future__ import annotations

from cloche.kernels.charts.error_bars import find_whisker
from cloche.kernels.charts.legend import color_key
from cloche.kernels.charts.values import NO_LINE, array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents


def read(line: Any, contents: AxesContents) -> None:
    """Read a line of `plot`, `axvline` or `axhline`, or one of seaborn's error bars."""
    xs, ys = array(line.get_xdata(orig=True)), array(line.get_ydata(orig=True))
    if len(xs) != len(ys):  # Matplotlib stretched one of them to fit the other when drawing
        xs, ys = array(line.get_xdata(orig=False)), array(line.get_ydata(orig=False))
    along_x, along_y = line.get_transform().contains_branch_seperately(contents.axes.transData)
    label = contents.label(line)
    if along_x and along_y:
        whisker = None if label or len(xs) not in (2, 6) else find_whisker(line.get_xydata())
        if whisker is not None:
            contents.whiskers.append((*whisker, line))
        else:
            contents.add_points(xs, ys, label, is_scatter=line.get_linestyle() in NO_LINE)
    elif (along_x or along_y) and len(xs):
        value = contents.x.read(xs[0]) if along_x else contents.y.read(ys[0])
        contents.references.append({"axis": "x" if along_x else "y", "value": value, "label": label})


def read_points(collection: Any, contents: AxesContents) -> None:
    """Read the points of `scatter`."""
    places = array(collection.get_offsets())
    if not collection.get_offset_transform().contains_branch(contents.axes.transData) or not len(places):
        return
    colors = collection.get_facecolors()
    if not contents.legend or len(colors) != len(places) or not (collection.get_label() or "_").startswith("_"):
        contents.add_points(places[:, 0], places[:, 1], contents.label(collection), is_scatter=True)
        return
    hues: dict[str, list[int]] = {}  # seaborn draws the points of all hues as one collection
    for place, color in enumerate(colors):
        hues.setdefault(contents.legend.get(color_key(color), ""), []).append(place)
    for hue, members in hues.items():
        contents.add_points(places[members, 0], places[members, 1], hue, is_scatter=True)


def read_outline(polygon: Any, contents: AxesContents) -> None:
    """Read a histogram that was drawn as an outline."""
    corners = polygon.get_xy()
    contents.add_points(corners[:, 0], corners[:, 1], contents.label(polygon), kind="area")
