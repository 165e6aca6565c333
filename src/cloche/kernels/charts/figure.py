"""Describes a Matplotlib figure as data, for readers that cannot see the picture.

The format is that of E2B's charts with additions: `range` (error bars and bands around a point or a bar), `kind`,
`orientation`, `also` (other kinds in the same axes), `references` (lines across the axes) and `values` (of a small
heatmap).  Everything is bounded, the figure is neither drawn nor changed, and a failure costs only the description.

Runs inside the sandbox, where our source cannot be imported any more: so this package imports all its modules at the
top, and functions import only what the figure's libraries have already imported.
"""

from __future__ import annotations

from cloche.kernels.charts import areas, bars, boxes, error_bars, images, lines, pies
from cloche.kernels.charts.axes_contents import AxesContents
from cloche.kernels.charts.chart_limits import ARTISTS, AXES, ELEMENTS, POINTS, POINTS_IN_ALL, cut
from cloche.kernels.charts.values import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import Chart


def describe(figure: Any) -> Chart | None:
    """Describe the figure; None if that fails."""
    try:
        return _describe(figure)
    except Exception:
        return None


def _describe(figure: Any) -> Chart | None:
    shown = [axes for axes in figure.axes if axes.get_visible() and not _is_colorbar(axes)]
    if not shown:
        return None
    series = sum(min(ELEMENTS, len(axes.lines) + len(axes.collections)) for axes in shown[:AXES])
    limit = max(20, min(POINTS, POINTS_IN_ALL // max(series, 1)))
    title = text(figure.get_suptitle())
    charts = [_chart(axes, limit) for axes in shown[:AXES]]
    if len(charts) > 1:  # unused places in a grid are left out
        charts = [chart for chart in charts if chart["type"] != "unknown" or chart.get("kind") or chart["title"]]
    if len(shown) == 1 or len(charts) == 1:
        return {**charts[0], "title": charts[0]["title"] or title}
    total = len(shown) if len(shown) > AXES else len(charts)
    return cut({"type": "superchart", "title": title, "elements": charts}, AXES, total)


def _is_colorbar(axes: Any) -> bool:
    return hasattr(axes, "_colorbar") or axes.get_label() == "<colorbar>"


def _chart(axes: Any, limit: int) -> Chart:
    """Describe one axes: sort its artists into kinds of elements, and combine these to a chart."""
    contents = AxesContents(axes, limit)
    if hasattr(axes, "zaxis"):
        contents.more = {"kind": "3d", "z_label": text(axes.get_zlabel())}
    else:
        _read_all(contents)
    parts = [
        cut({"type": kind, "elements": contents.kinds[kind]}, POINTS if kind in ("bar", "pie") else ELEMENTS)
        for kind in _kinds(contents)
    ]
    titles = (text(axes.get_title(loc)) for loc in ("center", "left", "right"))
    chart: Chart = {"type": "unknown", "title": next(filter(None, titles), None), "elements": []}
    chart |= contents.x.described("x") | contents.y.described("y")
    chart |= parts[0] if parts else {}
    if parts[1:]:
        chart["also"] = parts[1:]
    if contents.references:
        chart["references"] = contents.references[:ELEMENTS]
    return chart | contents.more


def _kinds(contents: AxesContents) -> list[str]:
    """Return the kinds that are present, the main one first."""
    if "violins" in contents.more:
        return []
    kinds = [kind for kind, elements in contents.kinds.items() if elements]
    if kinds[-2:] == ["line", "scatter"] and contents.count("scatter") > min(20, contents.count("line")):
        kinds[-2:] = ["scatter", "line"]  # a fit through points; fewer points are marks on a line
    return kinds


def _read_all(contents: AxesContents) -> None:
    axes = contents.axes
    artists = [artist for artist in axes.get_children()[:ARTISTS] if artist is not axes.patch]
    boxes.read_all(artists, contents)  # boxes and containers first: their parts are ordinary lines and patches
    for container in axes.containers[:ARTISTS]:
        _read_container(container, contents)
    for artist in artists:
        if id(artist) not in contents.used and artist.get_visible():
            _read(artist, contents)
    pies.name_by_legend(contents)
    areas.attach_bands(contents)
    error_bars.attach_whiskers(contents)


def _read_container(container: Any, contents: AxesContents) -> None:
    kind = type(container).__name__
    if kind == "BarContainer":
        bars.read(container, contents)
    elif kind == "ErrorbarContainer":
        error_bars.read(container, contents)
    elif kind == "StemContainer":
        contents.used |= {id(container.stemlines), id(container.baseline)}


def _read(artist: Any, contents: AxesContents) -> None:
    names = {kind.__name__ for kind in type(artist).__mro__}
    if "Line2D" in names:
        lines.read(artist, contents)
    elif "PathCollection" in names:
        lines.read_points(artist, contents)
    elif "Wedge" in names:
        pies.read_slice(artist, contents)
    elif "StepPatch" in names:
        bars.read_steps(artist, contents)
    elif "Polygon" in names and contents.is_data(artist):
        lines.read_outline(artist, contents)
    elif "PolyCollection" in names and artist.get_array() is None:
        areas.read(artist, contents)
    elif names & {"AxesImage", "QuadMesh", "PcolorImage"}:
        images.read(artist, contents)
    elif names & {"ContourSet", "PolyCollection", "Quiver", "LineCollection", "TriMesh", "Sankey"}:
        contents.more.setdefault("kind", type(artist).__name__)
