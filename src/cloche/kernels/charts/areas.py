"""Areas filled between two lines: areas, bands around a line, and violins."""

from __future__ import annotations

from cloche.kernels.charts.chart_limits import ARTISTS, ELEMENTS, thin
from cloche.kernels.charts.values import is_between, is_near, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents, Chart

    Edge = list[list[float]]  # points: along the area, and across it


def read(collection: Any, contents: AxesContents) -> None:
    """Describe an area by its upper edge, with the lower edge as its base."""
    if not contents.is_data(collection):
        return
    is_sideways = getattr(collection, "t_direction", "x") == "y"
    edges = _edges(collection, is_sideways)
    if edges is None:
        contents.more.setdefault("kind", "polygons")
        return
    upper, lower = edges
    if not upper:
        return
    label = contents.label(collection)
    middle = (upper[0][1] + lower[0][1]) / 2
    if len(upper) > 2 and all(is_near((a[1] + b[1]) / 2, middle) for a, b in zip(upper, lower, strict=True)):
        places = [point[0] for point in upper]
        name = (contents.x if is_sideways else contents.y).names([middle])[0]
        violin = {"label": name, "group": label, "min": plain(min(places)), "max": plain(max(places))}
        contents.more = {"kind": "violin", "violins": [*contents.more.get("violins", []), violin][:ELEMENTS]}
        return
    along, across = [point[0] for point in upper], [point[1] for point in upper]
    xs, ys = (across, along) if is_sideways else (along, across)
    element = contents.add_points(xs, ys, label, kind="area")
    axis = contents.x if is_sideways else contents.y
    element["base"] = [axis.read(lower[n][1]) for n in thin(len(lower), contents.limit)]


def _edges(collection: Any, is_sideways: bool) -> tuple[Edge, Edge] | None:
    """Return the upper and the lower edge; None if the corners are not those that `fill_between` makes."""
    upper: Edge = []
    lower: Edge = []
    for path in collection.get_paths()[:ARTISTS]:
        corners = path.vertices[:, ::-1] if is_sideways else path.vertices
        half = (len(corners) - 2) // 2
        there, back = corners[1 : half + 1], corners[half + 2 : 2 * half + 2][::-1]
        if half < 1 or len(there) != len(back) or not (there[:, 0] == back[:, 0]).all():
            return None
        upper += there.tolist()
        lower += back.tolist()
    if sum(point[1] for point in upper) < sum(point[1] for point in lower):
        upper, lower = lower, upper
    return upper, lower


def attach_bands(contents: AxesContents) -> None:
    """Attach areas to lines: an area around a line is its range, an area below makes the line its upper edge."""
    lines = contents.kinds["line"]
    for area in [element for element in lines if "base" in element]:
        bands = {high[0]: [low, high[1]] for low, high in zip(area["base"], area["points"], strict=True)}
        if any(_attach(area, bands, line) for line in lines):
            lines.remove(area)


def _attach(area: Chart, bands: dict[Any, list[Any]], line: Chart) -> bool:
    """Attach the area to the line if they belong together."""
    have_other_names = area["label"] and line["label"] and area["label"] != line["label"]
    if "base" in line or "range" in line or have_other_names:
        return False
    if line["points"] == area["points"]:
        line |= {"label": line["label"] or area["label"], "kind": "area", "base": area["base"]}
        return True
    if not _is_around(bands, line["points"], is_named=bool(area["label"] and line["label"])):
        return False
    line["range"] = [bands.get(point[0]) for point in line["points"]]
    return True


def _is_around(bands: dict[Any, list[Any]], points: list[list[Any]], is_named: bool) -> bool:
    """Say whether the area goes along and around the line.

    A common name is enough, because percentiles need not go around it.
    """
    along = [(bands[point[0]], point[1]) for point in points if point[0] in bands]
    return len(along) == len(bands) and (is_named or all(is_between(low, value, high) for (low, high), value in along))
