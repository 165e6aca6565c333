"""What a Matplotlib figure shows, as data: so that whoever cannot see the picture can read the chart.

The kernel asks for it beside the picture.  The shape is that of E2B's charts, with more in it: `range` (error bars and
bands around a point or a bar), `kind`, `orientation`, `also` (other kinds in the same axes), `references` (lines across
the axes) and `values` (of a small heatmap).  Everything is bounded, the figure is neither drawn nor changed, and
whatever goes wrong costs the description alone.

Runs inside the sandbox, after its source has gone: nothing of `cloche` can be imported here.
"""

from __future__ import annotations

import math
import re
import sys
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Chart = dict[str, Any]
    Read = Callable[[Any], Any]

POINTS = 1_000  # of a line; bars or slices of an axes
POINTS_IN_ALL = 20_000
ELEMENTS = 50
AXES = 16
TICKS = 100
TEXT = 500
_ARTISTS = 10_000  # looked at in one axes
_CELLS = 400  # of a heatmap that is given in full


def describe(figure: Any) -> Chart | None:
    """What the figure shows; None when that cannot be told."""
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
    title = _text(figure.get_suptitle())
    charts = [_Axes(axes, limit).chart() for axes in shown[:AXES]]
    if len(charts) > 1:  # unused places in a grid say nothing
        charts = [chart for chart in charts if chart["type"] != "unknown" or chart.get("kind") or chart["title"]]
    if len(shown) == 1 or len(charts) == 1:
        return {**charts[0], "title": charts[0]["title"] or title}
    total = len(shown) if len(shown) > AXES else len(charts)
    return _cut({"type": "superchart", "title": title, "elements": charts}, AXES, total)


def _is_colorbar(axes: Any) -> bool:
    return hasattr(axes, "_colorbar") or axes.get_label() == "<colorbar>"


class _Axes:
    """One axes: its artists are sorted into kinds of elements, and those put together to a chart."""

    def __init__(self, axes: Any, limit: int) -> None:
        self.axes = axes
        self.limit = limit  # of points in a line
        self.x, x_scale = _reader(axes.xaxis)
        self.y, y_scale = _reader(axes.yaxis)
        self.scales = {"x": x_scale, "y": y_scale}
        self.ticks = {"x": _Ticks(axes.xaxis, self.x), "y": _Ticks(axes.yaxis, self.y)}
        self.legend = _legend(axes)
        self.kinds: dict[str, list[Chart]] = {"pie": [], "box_and_whisker": [], "bar": [], "line": [], "scatter": []}
        self.bars: list[tuple[Chart, float]] = []  # and where each stands
        self.whiskers: list[tuple[str, float, float, float, Any]] = []  # lines that look like seaborn's error bars
        self.references: list[Chart] = []
        self.more: Chart = {}
        self.used: set[int] = set()  # artists that are part of something described already

    def chart(self) -> Chart:
        if hasattr(self.axes, "zaxis"):
            self.more = {"kind": "3d", "z_label": _text(self.axes.get_zlabel())}
        else:
            self._sort()
        kinds = [kind for kind, elements in self.kinds.items() if elements]
        if kinds[-2:] == ["line", "scatter"] and _count(self.kinds["scatter"]) > min(20, _count(self.kinds["line"])):
            kinds[-2:] = ["scatter", "line"]  # a fit through points; fewer than that are marks on a line
        if "violins" in self.more:
            kinds = []
        parts = [_cut({"type": kind, "elements": self.kinds[kind]}, _most(kind)) for kind in kinds]
        titles = (_text(self.axes.get_title(loc)) for loc in ("center", "left", "right"))
        chart: Chart = {"type": "unknown", "title": next(filter(None, titles), None), "elements": []}
        for name, axis in (("x", self.axes.xaxis), ("y", self.axes.yaxis)):
            label = _text(axis.label.get_text())
            chart |= {f"{name}_label": label, f"{name}_unit": _unit(label), f"{name}_scale": self.scales[name]}
            chart |= {f"{name}_ticks": self.ticks[name].values, f"{name}_tick_labels": self.ticks[name].labels}
        chart |= parts[0] if parts else {}
        if parts[1:]:
            chart["also"] = parts[1:]
        if self.references:
            chart["references"] = self.references[:ELEMENTS]
        return chart | self.more

    def _sort(self) -> None:
        artists = [artist for artist in self.axes.get_children()[:_ARTISTS] if artist is not self.axes.patch]
        self._read_boxes(artists)
        for container in self.axes.containers[:_ARTISTS]:
            self._read_container(container)
        for artist in artists:
            if id(artist) not in self.used and artist.get_visible():
                self._read(artist)
        self._name_slices()
        self._attach_bands()
        self._attach_whiskers()

    def _read(self, artist: Any) -> None:
        names = {kind.__name__ for kind in type(artist).__mro__}
        if "Line2D" in names:
            self._read_line(artist)
        elif "PathCollection" in names:
            self._read_scatter(artist)
        elif "Wedge" in names:
            angle = round(float(artist.theta2) - float(artist.theta1), 6)
            slice_ = {"label": self._label(artist), "angle": angle, "radius": _plain(artist.r)}
            self.kinds["pie"].append({**slice_, "share": round(angle / 360, 6)})
        elif "StepPatch" in names:
            values, edges, _ = artist.get_data()
            self._add_bins(values, edges, self._label(artist))
        elif "Polygon" in names and self._is_data(artist):  # a histogram's outline
            corners = artist.get_xy()
            self._add_line(corners[:, 0], corners[:, 1], self._label(artist), kind="area")
        elif "PolyCollection" in names and artist.get_array() is None:
            self._read_area(artist)
        elif names & {"AxesImage", "QuadMesh", "PcolorImage"}:
            self._read_heatmap(artist)
        elif names & {"ContourSet", "PolyCollection", "Quiver", "LineCollection", "TriMesh", "Sankey"}:
            self.more.setdefault("kind", type(artist).__name__)

    # --- lines, points and areas

    def _read_line(self, line: Any) -> None:
        xs, ys = _array(line.get_xdata(orig=True)), _array(line.get_ydata(orig=True))
        if len(xs) != len(ys):  # one of them was stretched to the other when it was drawn
            xs, ys = _array(line.get_xdata(orig=False)), _array(line.get_ydata(orig=False))
        along_x, along_y = line.get_transform().contains_branch_seperately(self.axes.transData)
        label = self._label(line)
        if along_x and along_y:
            whisker = None if label or len(xs) not in (2, 6) else _whisker(line.get_xydata())
            if whisker is not None:
                self.whiskers.append((*whisker, line))
            else:
                self._add_line(xs, ys, label, is_scatter=line.get_linestyle() in ("None", "none", " ", ""))
        elif (along_x or along_y) and len(xs):  # axvline, axhline
            value = self.x(xs[0]) if along_x else self.y(ys[0])
            self.references.append({"axis": "x" if along_x else "y", "value": value, "label": label})

    def _add_line(self, xs: Any, ys: Any, label: str, is_scatter: bool = False, **more: Any) -> Chart:
        total = min(len(xs), len(ys))
        points = [[self.x(xs[n]), self.y(ys[n])] for n in _thin(total, self.limit)]
        element = {"label": label, "points": points, **more}
        if total > len(points):
            element["points_total"] = total
        if points:
            self.kinds["scatter" if is_scatter else "line"].append(element)
        return element

    def _read_scatter(self, collection: Any) -> None:
        places = _array(collection.get_offsets())
        if not self._is_data(collection, offset=True) or not len(places):
            return
        colors = collection.get_facecolors()
        if not self.legend or len(colors) != len(places) or not (collection.get_label() or "_").startswith("_"):
            self._add_line(places[:, 0], places[:, 1], self._label(collection), is_scatter=True)
            return
        hues: dict[str, list[int]] = {}  # seaborn draws points of all hues as one
        for place, color in enumerate(colors):
            hues.setdefault(self.legend.get(_color_key(color), ""), []).append(place)
        for hue, members in hues.items():
            self._add_line(places[members, 0], places[members, 1], hue, is_scatter=True)

    def _read_area(self, collection: Any) -> None:
        """What is filled between two lines: the upper one, and the lower as its base."""
        if not self._is_data(collection):
            return
        sideways = getattr(collection, "t_direction", "x") == "y"
        upper: list[list[float]] = []
        lower: list[list[float]] = []
        for path in collection.get_paths()[:_ARTISTS]:
            corners = path.vertices[:, ::-1] if sideways else path.vertices
            half = (len(corners) - 2) // 2
            there, back = corners[1 : half + 1], corners[half + 2 : 2 * half + 2][::-1]
            if half < 1 or len(there) != len(back) or not (there[:, 0] == back[:, 0]).all():
                self.more.setdefault("kind", "polygons")
                return
            upper += there.tolist()
            lower += back.tolist()
        if not upper:
            return
        if sum(point[1] for point in upper) < sum(point[1] for point in lower):
            upper, lower = lower, upper
        middle = (upper[0][1] + lower[0][1]) / 2
        label = self._label(collection)
        if len(upper) > 2 and all(_near((a[1] + b[1]) / 2, middle) for a, b in zip(upper, lower, strict=True)):
            places = [point[0] for point in upper]
            names = self.ticks["x" if sideways else "y"].names([middle])
            violin = {"label": names[0], "group": label, "min": _plain(min(places)), "max": _plain(max(places))}
            self.more = {"kind": "violin", "violins": [*self.more.get("violins", []), violin][:ELEMENTS]}
            return
        along, top = [point[0] for point in upper], [point[1] for point in upper]
        xs, ys = (top, along) if sideways else (along, top)
        element = self._add_line(xs, ys, label, kind="area")
        across = self.x if sideways else self.y
        element["base"] = [across(lower[n][1]) for n in _thin(len(lower), self.limit)]

    def _attach_bands(self) -> None:
        """An area around a line is how sure that line is; one below it makes the line its upper edge."""
        lines = self.kinds["line"]
        for area in [element for element in lines if "base" in element]:
            bands = {high[0]: [low, high[1]] for low, high in zip(area["base"], area["points"], strict=True)}
            for line in lines:
                if (
                    "base" in line
                    or "range" in line
                    or (area["label"] or line["label"]) != (line["label"] or area["label"])
                ):
                    continue
                if line["points"] == area["points"]:
                    line |= {"label": line["label"] or area["label"], "kind": "area", "base": area["base"]}
                elif _is_around(bands, line["points"], is_named=bool(area["label"] and line["label"])):
                    line["range"] = [bands.get(point[0]) for point in line["points"]]
                else:
                    continue
                lines.remove(area)
                break

    def _attach_whiskers(self) -> None:
        for axis, place, low, high, line in self.whiskers:
            bar = next((bar for bar, at in self.bars if _near(at, place) and "range" not in bar), None)
            if bar is not None:
                bar["range"] = [_plain(low), _plain(high)]
                continue
            where, across, value = (self.x(place), 0, self.y) if axis == "x" else (self.y(place), 1, self.x)
            ends = [value(low), value(high)]
            for element in self.kinds["line"] + self.kinds["scatter"]:
                at = next((n for n, point in enumerate(element["points"]) if point[across] == where), None)
                if at is not None and _is_between(ends[0], element["points"][at][1 - across], ends[1]):
                    element.setdefault("range", [None] * len(element["points"]))[at] = ends
                    break
            else:
                self._add_line(line.get_xdata(), line.get_ydata(), "")

    # --- bars, and what else comes in containers

    def _read_container(self, container: Any) -> None:
        kind = type(container).__name__
        if kind == "BarContainer":
            self._read_bars(container)
        elif kind == "ErrorbarContainer":
            self._read_errorbar(container)
        elif kind == "StemContainer":
            self.used |= {id(container.stemlines), id(container.baseline)}

    def _read_bars(self, container: Any) -> None:
        patches = [patch for patch in container.patches if patch.get_visible()][:_ARTISTS]
        if not patches:
            return
        group = self._label(container, patches[0])
        horizontal = container.orientation == "horizontal"
        self.more["orientation"] = "horizontal" if horizontal else "vertical"
        if horizontal:
            spans = [(patch.get_y(), patch.get_height(), patch.get_x(), patch.get_width()) for patch in patches]
        else:
            spans = [(patch.get_x(), patch.get_width(), patch.get_y(), patch.get_height()) for patch in patches]
        places = [float(start + width / 2) for start, width, _, _ in spans]
        ticks = self.ticks["y" if horizontal else "x"]
        edges = [(float(start), float(start + width)) for start, width, _, _ in spans]
        is_binned = len(edges) > 1 and all(_near(a[1], b[0], a[1] - a[0]) for a, b in pairwise(edges))
        names = ticks.names(places, edges if is_binned else None)
        if is_binned and not ticks.is_fixed:
            self.more["kind"] = "histogram"
        ranges = _ranges(container.errorbar, "x" if horizontal else "y")
        for n in _thin(len(patches), POINTS):
            bar: Chart = {"label": names[n], "group": group, "value": _plain(spans[n][3])}
            if spans[n][2]:
                bar["base"] = _plain(spans[n][2])
            if len(ranges) == len(patches):
                bar["range"] = ranges[n]
            self.kinds["bar"].append(bar)
            self.bars.append((bar, places[n]))

    def _add_bins(self, values: Any, edges: Any, group: str) -> None:
        self.more |= {"orientation": "vertical", "kind": "histogram"}
        names = self.ticks["x"].names(list(edges[:-1]), list(pairwise(edges)))
        for n in _thin(len(values), POINTS):
            self.kinds["bar"].append({"label": names[n], "group": group, "value": _plain(values[n])})

    def _read_errorbar(self, container: Any) -> None:
        line, caps, bars = container
        self.used |= {id(part) for part in (*caps, *bars)}
        if line is None or not line.get_visible():
            return
        self.used.add(id(line))
        xs, ys = _array(line.get_xdata(orig=True)), _array(line.get_ydata(orig=True))
        is_scatter = line.get_linestyle() in ("None", "none", " ", "")
        element = self._add_line(xs, ys, self._label(container, line), is_scatter)
        for axis, key in (("y", "range"), ("x", "x_range")):
            ranges = _ranges(container, axis)
            if ranges and len(ranges) == len(xs):
                element[key] = [ranges[n] for n in _thin(len(xs), self.limit)]

    # --- pies, boxes and heatmaps

    def _name_slices(self) -> None:
        """Slices that only the legend names, in its order."""
        slices, legend = self.kinds["pie"], self.axes.get_legend()
        if slices and legend is not None and not any(part["label"] for part in slices):
            for part, text in zip(slices, legend.get_texts(), strict=False):
                part["label"] = _text(text.get_text()) or ""

    def _read_boxes(self, artists: list[Any]) -> None:
        parts = [artist for artist in artists if type(artist).__name__ in ("Line2D", "PathPatch")]
        lines = [part.get_xydata() if hasattr(part, "get_xydata") else part.get_path().vertices for part in parts]
        at = 0
        while at < len(parts):
            found = _find_box(lines, parts, at) if len(lines[at]) in (2, 5, 6, 11, 12) else None
            if found is None:
                at += 1
                continue
            box, place, horizontal, count = found
            group = self._label(parts[at]) if type(parts[at]).__name__ == "PathPatch" else ""
            name = self.ticks["y" if horizontal else "x"].names([place])[0]
            self.more["orientation"] = "horizontal" if horizontal else "vertical"
            self.kinds["box_and_whisker"].append({"label": name, **({"group": group} if group else {}), **box})
            self.used |= {id(part) for part in parts[at : at + count]}
            at += count

    def _read_heatmap(self, artist: Any) -> None:
        import numpy

        cells = artist.get_array()
        shape = [int(size) for size in getattr(cells, "shape", ())]
        self.more = {"kind": "heatmap" if len(shape) < 3 else "image", "shape": shape}
        bar = getattr(artist, "colorbar", None)
        if bar is not None:
            self.more["color_label"] = _text(bar.ax.get_ylabel() or bar.ax.get_xlabel())
        if len(shape) > 2 or cells.size == 0:
            return
        rows = numpy.ma.filled(numpy.ma.asarray(cells).astype(float), numpy.nan)
        known = rows[numpy.isfinite(rows)][:10_000_000]
        if known.size:
            self.more |= {"min": _plain(known.min()), "max": _plain(known.max()), "mean": _plain(known.mean())}
        if rows.size <= _CELLS and rows.ndim == 2:
            self.more["values"] = [[_plain(value) for value in row] for row in rows]

    # --- what an artist is called, and whether it stands for data

    def _label(self, artist: Any, colored: Any = None) -> str:
        label = _text(artist.get_label()) or ""
        if label and not label.startswith("_"):
            return label
        key = _color_of(artist if colored is None else colored) if self.legend else None
        return self.legend.get(key, "") if key is not None else ""

    def _is_data(self, artist: Any, offset: bool = False) -> bool:
        transform = artist.get_offset_transform() if offset else artist.get_transform()
        return bool(transform.contains_branch(self.axes.transData))


class _Ticks:
    """The ticks that are in view, and the names of places where they are fixed."""

    def __init__(self, axis: Any, read: Read) -> None:
        self._read = read
        self.is_fixed = type(axis.get_major_locator()).__name__ in ("FixedLocator", "StrCategoryLocator")
        self._named: list[tuple[float, str]] = []
        try:
            places = [float(place) for place in axis.get_majorticklocs()[:_ARTISTS]]
            texts = axis.get_major_formatter().format_ticks(places)
            ticks = [(place, _tick_text(text)) for place, text in zip(places, texts, strict=False)]
            low, high = sorted(axis.get_view_interval())
            seen = [tick for tick in ticks if low - 1e-9 * (high - low) <= tick[0] <= high + 1e-9 * (high - low)]
        except Exception:  # a formatter of the user's own
            ticks = seen = []
        if self.is_fixed:
            self._named = sorted(ticks)
        kept = [seen[n] for n in _thin(len(seen), TICKS)]
        self.values = [read(place) for place, _ in kept]
        self.labels = [text for _, text in kept]

    def names(self, places: list[float], edges: list[tuple[float, float]] | None = None) -> list[str]:
        """What stands at these places: the ticks' labels, when each has its own; else numbers, dates or intervals."""
        gaps = [b[0] - a[0] for a, b in pairwise(self._named)]
        reach = min((gap for gap in gaps if gap > 0), default=1.0) / 2
        if self._named and len(places) <= len(self._named):
            nearest = [min(self._named, key=lambda tick, at=place: abs(tick[0] - at)) for place in places]  # type: ignore[misc]
            if len(set(nearest)) == len(places) and all(
                abs(tick[0] - place) <= reach * 1.001 and tick[1] for tick, place in zip(nearest, places, strict=True)
            ):
                return [text for _, text in nearest]
        if edges is not None:
            return [f"{_short(self._read(low))} to {_short(self._read(high))}" for low, high in edges]
        return [_short(self._read(place)) for place in places]


def _reader(axis: Any) -> tuple[Read, str]:
    """What makes a value on the axis a JSON value; and the axis's scale."""
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    names = f"{type(converter).__name__} {type(axis.get_major_formatter()).__name__}"
    if "Category" in names:
        categories = {int(place): text for text, place in axis.units._mapping.items()}

        def read_category(value: Any) -> Any:  # the nearest: seaborn spreads what would lie on one another
            if not _is_number(value) or not math.isfinite(value):
                return _plain(value)
            return _text(categories.get(round(value), _plain(value)))

        return read_category, "categorical"
    pandas = sys.modules.get("pandas")
    frequency = getattr(axis, "freq", None)
    if "TimeSeries" in names and frequency is not None and pandas is not None:

        def read_period(value: Any) -> Any:
            if not _is_number(value) or not math.isfinite(value):
                return _plain(value)
            return _plain(pandas.Period(ordinal=int(value), freq=frequency))

        return read_period, "datetime"
    if "Date" in names:
        from datetime import datetime, timedelta

        from matplotlib.dates import get_epoch

        epoch = datetime.fromisoformat(get_epoch()).replace(tzinfo=None)

        def read_date(value: Any) -> Any:
            if not _is_number(value):
                return _plain(value)
            try:
                return (epoch + timedelta(days=float(value))).isoformat()
            except (OverflowError, ValueError):
                return None

        return read_date, "datetime"
    return _plain, str(axis.get_scale())


def _legend(axes: Any) -> dict[Any, str]:
    """Names by colour, of what does not carry its name itself."""
    figure = axes.get_figure()
    legend = axes.get_legend() or next(iter(figure.legends), None)
    if legend is None:
        return {}
    own = {line.get_label() for line in axes.lines if len(line.get_xdata(orig=True))}
    own |= {container.get_label() for container in axes.containers}
    own |= {collection.get_label() for collection in axes.collections if len(collection.get_paths())}
    names: dict[Any, set[str]] = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
        key, name = _color_of(handle), _text(text.get_text())
        if key is not None and name and name not in own:
            names.setdefault(key, set()).add(name)
    return {key: found.pop() for key, found in names.items() if len(found) == 1}


def _color_of(artist: Any) -> Any:
    try:
        if not hasattr(artist, "get_color"):
            color = artist.get_facecolor()
        elif artist.get_linestyle() in ("None", "none", " ", ""):
            color = artist.get_markerfacecolor()
        else:
            color = artist.get_color()
        return _color_key(color[0] if getattr(color, "ndim", 1) == 2 else color)
    except Exception:
        return None


def _color_key(color: Any) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(round(part, 2) for part in to_rgb(color))


def _ranges(container: Any, axis: str) -> list[list[Any]]:
    """From where to where each error bar goes along an axis."""
    if container is None or not getattr(container, f"has_{axis}err"):
        return []
    segments = container[2][-1 if axis == "y" else 0].get_segments()
    along = 1 if axis == "y" else 0
    return [[_plain(line[0][along]), _plain(line[-1][along])] if len(line) else [None, None] for line in segments]


def _whisker(places: Any) -> tuple[str, float, float, float] | None:
    """A straight line along an axis, with or without caps: which axis it stands on, where, from where to where."""
    inner = places if len(places) == 2 else places[2:4]
    for across, axis in ((0, "x"), (1, "y")):
        at, ends = float(inner[0][across]), sorted(float(place[1 - across]) for place in inner)
        if at == float(inner[1][across]) and (
            len(places) == 2 or _near((places[0][across] + places[1][across]) / 2, at)
        ):
            return axis, at, ends[0], ends[1]
    return None


def _find_box(lines: list[Any], parts: list[Any], start: int) -> tuple[Chart, float, bool, int] | None:
    """The box of a box plot that begins here, where it stands, whether it lies, and of how many artists it is made.

    `Axes.bxp`, which all libraries use, adds: the box, two whiskers, two caps, the median, the mean, the outliers;
    all but whiskers and median may be missing.
    """
    at = start if len(lines[start]) == 2 else start + 1
    for across in (0, 1):
        along = 1 - across
        whiskers = lines[at : at + 2]
        if len(whiskers) < 2 or any(len(line) != 2 for line in whiskers):
            return None
        place = float(whiskers[0][0][across])
        if any(float(point[across]) != place for line in whiskers for point in line):
            continue
        (q1, low), (q3, high) = ([float(point[along]) for point in line] for line in whiskers)

        def is_bar(n: int, across: int = across, along: int = along, place: float = place) -> bool:
            if n >= len(lines) or len(lines[n]) != 2 or not hasattr(parts[n], "get_xydata"):
                return False
            a, b, c, d = (float(lines[n][end][axis]) for axis in (across, along) for end in (0, 1))
            return a != b and _near((a + b) / 2, place) and (c == d or (c != c and d != d))

        after = at + 2
        if is_bar(after) and is_bar(after + 1) and is_bar(after + 2) and _same(lines[after][0][along], low):
            after += 2
        if not is_bar(after):
            continue
        median = float(lines[after][0][along])
        if not (q1 <= median <= q3 or median != median):
            continue
        after += 1
        marks: list[list[float]] = []
        mean = None
        if is_bar(after) and q1 <= lines[after][0][along] <= q3:  # the mean as a line
            mean = float(lines[after][0][along])
            after += 1
        while after < len(parts) and len(marks) < 2 and _is_marks(parts[after], lines[after], across, place):
            marks.append([float(value) for value in lines[after][:, along]])
            after += 1
        if len(marks) == 2 or (marks and len(marks[0]) == 1 and low <= marks[0][0] <= high):
            mean = marks.pop(0)[0] if len(marks[0]) == 1 else mean
        outliers = sorted(marks[-1]) if marks else []
        numbers = {"min": low, "first_quartile": q1, "median": median, "third_quartile": q3, "max": high}
        box: Chart = {key: _plain(value) for key, value in numbers.items()}
        box["outliers"] = [_plain(outliers[n]) for n in _thin(len(outliers), POINTS // 10)]
        if mean is not None:
            box["mean"] = _plain(mean)
        return box, place, across == 1, after - start
    return None


def _is_marks(part: Any, points: Any, across: int, place: float) -> bool:
    if not hasattr(part, "get_linestyle") or part.get_linestyle() not in ("None", "none", " ", ""):
        return False
    return all(float(point[across]) == place for point in points)


def _is_around(bands: dict[Any, list[Any]], points: list[list[Any]], is_named: bool) -> bool:
    """Does the area go along the line, and around it?  A name that both have is as good: percentiles need not."""
    along = [(bands[point[0]], point[1]) for point in points if point[0] in bands]
    return len(along) == len(bands) and (is_named or all(_is_between(low, value, high) for (low, high), value in along))


def _is_between(low: Any, value: Any, high: Any) -> bool:
    if not (_is_number(low) and _is_number(value) and _is_number(high)):
        return True  # nothing is known
    slack = 1e-9 * max(abs(low), abs(high))
    return bool(low - slack <= value <= high + slack)


# --- values and bounds


def _array(data: Any) -> Any:
    import numpy

    if isinstance(data, numpy.ma.MaskedArray):
        return data.astype(float).filled(numpy.nan)
    return numpy.asarray(data)


def _plain(value: Any) -> Any:
    """A value as JSON: numbers as floats, dates as ISO text, nothing for what is not finite."""
    if _is_number(value):
        number = float(value)
        return number if math.isfinite(number) else None
    if value is None or isinstance(value, str):
        return value if value is None else value[:TEXT]
    if hasattr(value, "start_time"):  # pandas.Period
        value = value.start_time
    elif type(value).__name__ == "datetime64":
        value = value.astype("datetime64[us]").item()
    text = str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
    return None if text in ("NaT", "None", "nan", "<NA>") else text[:TEXT]


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    # NumPy's texts and dates have the method, too.
    return hasattr(value, "__float__") and not isinstance(value, (str, bytes)) and not _is_date(value)


def _is_date(value: Any) -> bool:
    return hasattr(value, "isoformat") or type(value).__name__ in ("datetime64", "timedelta64")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).removesuffix("T00:00:00")[:TEXT]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:TEXT] or None


def _tick_text(text: Any) -> str:
    plain = re.sub(r"\\mathdefault\{(.*)\}", r"\1", str(text)[:TEXT])
    return re.sub(r"\^\{([^{}]*)\}", r"^\1", plain.strip("$")) if plain != text else plain


def _unit(label: str | None) -> str | None:
    found = re.findall(r"\(([^()]+)\)|\[([^\[\]]+)\]", label or "")
    return (found[-1][0] or found[-1][1]).strip() or None if found else None


def _near(a: float, b: float, scale: float = 1.0) -> bool:
    return bool(abs(a - b) <= 1e-6 * max(abs(scale), 1e-9 * abs(a))) or a == b


def _same(a: float, b: float) -> bool:
    return bool(a == b or (a != a and b != b))


def _thin(total: int, limit: int) -> Iterable[int]:
    """Evenly spread places, the first and the last among them."""
    if total <= limit:
        return range(total)
    return [round(n * (total - 1) / (limit - 1)) for n in range(limit)]


def _count(elements: list[Chart]) -> int:
    return sum(element.get("points_total", len(element["points"])) for element in elements)


def _most(kind: str) -> int:
    return POINTS if kind in ("bar", "pie") else ELEMENTS


def _cut(chart: Chart, most: int, total: int | None = None) -> Chart:
    """The chart with so many elements at most, and how many there were."""
    total = max(total or 0, len(chart["elements"]))
    if total > most:
        chart["elements"] = chart["elements"][:most]
        chart["elements_total"] = total
    return chart
