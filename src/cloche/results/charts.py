"""Describes a chart in one line: its kind, its axes, and its elements in few numbers (see cloche.kernels.charts)."""

from __future__ import annotations

from cloche.results.folding import listed
from cloche.results.tokens import cut
from cloche.results.values import as_list, dicts, line, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Chart = dict[str, Any]
    Element = dict[str, Any]


def chart_text(chart: Chart, limit: int) -> str:
    """Describe a chart in at most `limit` tokens; a figure with several charts gets a line for each."""
    if chart.get("type") != "superchart":
        return cut(f"[chart] {_chart_line(chart)}", limit)
    parts = dicts(chart.get("elements"))
    lines = [f"[chart] {len(parts)} charts{_title(chart)}", *(f"  {_chart_line(part)}" for part in parts)]
    return listed(lines, limit, "lines")


def _chart_line(chart: Chart) -> str:
    kind = chart.get("kind") if chart.get("type") in (None, "unknown") or chart.get("kind") == "histogram" else None
    name = line(kind or chart.get("type") or "chart", 40).replace("_", " ")
    facts = []
    for axis in ("x", "y"):
        label, scale = chart.get(f"{axis}_label"), chart.get(f"{axis}_scale")
        odd = f" [{line(scale, 20)}]" if scale not in (None, "linear", "categorical", "datetime") else ""
        if label or odd:
            facts.append(f"{axis}: {line(label or '', 80)}{odd}")
    shape = [short(size) for size in as_list(chart.get("shape"))[:3]]
    if shape:
        facts.append("×".join(shape))  # noqa: RUF001
    if chart.get("kind") == "heatmap" and "min" in chart:
        facts.append(f"values {short(chart['min'])} to {short(chart.get('max'))}")
    facts += filter(None, map(_elements, [chart, *dicts(as_list(chart.get("also"))[:4])]))
    return f"{name}{_title(chart)}" + (f" — {', '.join(facts)}" if facts else "")


def _title(chart: Chart) -> str:
    return f' "{line(chart["title"], 120)}"' if chart.get("title") else ""


def _elements(chart: Chart) -> str:
    elements = dicts(chart.get("elements"))
    if not elements:
        return ""
    kind = chart.get("type")
    if kind == "bar":
        noun, shown = "bars", _bars(elements)
    elif kind == "pie":
        noun, shown = "slices", [_slice(element) for element in elements[:24]]
    elif kind == "box_and_whisker":
        noun, shown = "boxes", [_box(element) for element in elements[:12]]
    else:
        noun, shown = "series" if kind == "line" else "sets of points", [_series(element) for element in elements[:12]]
    total = chart.get("elements_total", len(elements))
    more = f"; … {total - len(shown):,} more" if isinstance(total, int) and total > len(shown) else ""
    return f"{short(total)} {noun}: {'; '.join(shown)}{more}"


def _bars(elements: list[Element]) -> list[str]:
    has_groups = len({_name(element, "group") for element in elements}) > 1
    keys = ("group", "label") if has_groups else ("label",)
    return [
        f"{' '.join(_name(element, key) for key in keys).strip()}: {short(element.get('value'))}"
        for element in elements[:24]
    ]


def _slice(element: Element) -> str:
    angle = element.get("angle")
    return f"{_name(element)}: {f'{angle / 3.6:.3g} %' if isinstance(angle, (int, float)) else '?'}"


def _box(element: Element) -> str:
    q1, median, q3 = (short(element.get(key)) for key in ("first_quartile", "median", "third_quartile"))
    whiskers = f"{short(element.get('min'))} to {short(element.get('max'))}"
    outliers = len(as_list(element.get("outliers")))
    return f"{_name(element)}: median {median} (quartiles {q1} to {q3}, whiskers {whiskers}, {outliers} outliers)"


def _series(element: Element) -> str:
    label = _name(element, most=60)
    points = [point for point in as_list(element.get("points")) if isinstance(point, list) and len(point) == 2]
    total = short(element.get("points_total", len(points)))
    numbers = [point for point in points if isinstance(point[1], (int, float))]
    if not numbers:
        return f"{label} ({total} points)".strip()
    (x_first, first), (x_last, last) = numbers[0], numbers[-1]
    low, high = min(y for _, y in numbers), max(y for _, y in numbers)
    extremes = f", min {short(low)}, max {short(high)}" if {low, high} != {first, last} else ""
    span = f"x {short(x_first)} to {short(x_last)}, y {short(first)} → {short(last)}{extremes}"
    return f"{label} ({total} points, {span})".strip()


def _name(element: Element, key: str = "label", most: int = 40) -> str:
    return line(element.get(key) or "", most)
