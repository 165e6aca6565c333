"""Descriptions of figures: one program draws and describes them all inside a real sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche.kernels import charts
from cloche.kernels.charts import chart_limits

Chart = dict[str, Any]

FIGURES = r"""
import datetime, io, json, sys, warnings
warnings.simplefilter("ignore")
sys.dont_write_bytecode = True
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from cloche.kernels import charts

DAYS = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 6, 1)]
FRAME = pd.DataFrame({
    "kind": list("aabbcc") * 4, "side": list("xy") * 12, "size": np.arange(24.0), "cost": np.arange(24.0) % 7,
})

def lines():
    plt.plot([1, 2, 3], [4, np.nan, np.inf], label="A")
    plt.plot([1, 2, 3], [1, 2, 3], label="B")
    plt.axhline(2, label="goal")
    plt.title("Speed"); plt.xlabel("time (s)"); plt.ylabel("speed [m/s]")

def dates_and_log():
    plt.plot(DAYS, [1, 1000]); plt.yscale("log")

def categories(): plt.plot(["low", "high"], [1, 2])
def long_line(): plt.plot(np.arange(1_000_000))
def many_lines():
    for n in range(70): plt.plot(np.arange(2000) + n)

def points(): plt.scatter([1, 2], [3, 4], label="P")
def markers_only(): plt.plot([1, 2], [3, 4], "o")
def bars(): plt.bar(["a", "b"], [1, -2], yerr=[0.5, 0.5], label="S")
def lying_bars(): plt.barh(["a", "b"], [1, 2])
def grouped_bars():
    x = np.arange(2)
    plt.bar(x - 0.2, [1, 2], 0.4, label="A"); plt.bar(x + 0.2, [3, 4], 0.4, label="B")
    plt.xticks(x, ["p", "q"])

def stacked_bars(): plt.bar(["a"], [1], label="A"); plt.bar(["a"], [3], bottom=[1], label="B")
def bars_on_days(): plt.bar(DAYS, [1, 2])
def histogram(): plt.hist([0, 0, 1, 2, 2, 2, 4], bins=4, range=(0, 4))
def pie(): plt.pie([3, 1], labels=["yes", "no"], startangle=90)
def pie_named_by_legend(): plt.legend(plt.pie([3, 1])[0], ["yes", "no"])
def boxes(): plt.boxplot([[1, 2, 3, 4, 100], [2, 3, 4, 5, 6]], tick_labels=["A", "B"])
def odd_boxes():
    plt.boxplot([[1, 2, 3, 4, 5]], orientation="horizontal", notch=True, patch_artist=True, showmeans=True)

def equal_values(): plt.boxplot([[5, 5, 5]])
def bars_and_line(): plt.bar([1, 2], [1, 2]); plt.plot([1, 2], [2, 3], label="trend")
def two_axes():
    figure, (left, right, _) = plt.subplots(1, 3)
    left.plot([1, 2]); right.bar(["x"], [1]); right.set_title("R"); figure.suptitle("Both")

def many_axes():
    for axes in plt.subplots(5, 5)[1].flat: axes.plot([1, 2])

def error_bars(): plt.errorbar([1, 2], [3, 4], yerr=[0.5, 1], label="E", capsize=3)
def area(): plt.fill_between([1, 2, 3], [2, 3, 4], [0, 0, 1], label="F")
def band(): plt.plot([1, 2], [3, 4], label="L"); plt.fill_between([1, 2], [2, 3], [4, 5], alpha=0.2)
def heatmap(): plt.imshow([[1, 2], [3, np.nan]]); plt.colorbar(label="heat"); plt.title("H")
def picture(): plt.imshow(np.zeros((4, 6, 3)))
def contours(): plt.contourf(np.arange(25.0).reshape(5, 5))
def solid(): plt.figure().add_subplot(projection="3d").plot([1, 2], [1, 2], [1, 2])
def polar(): plt.figure().add_subplot(projection="polar").plot([1, 2], [1, 2])
def empty(): plt.figure().add_subplot()
def long_texts(): plt.plot([1], label="x" * 2000); plt.title("y" * 2000)
def bad_formatter():
    plt.plot([1, 2])
    def fail(value, place): raise ValueError("no")
    plt.gca().xaxis.set_major_formatter(fail)

def pandas_lines(): FRAME[["size", "cost"]].head(3).plot(title="T")
def pandas_months(): pd.Series([1, 2], index=pd.date_range("2024-01-01", periods=2, freq="MS"), name="m").plot()
def pandas_bars(): FRAME.groupby("kind")[["size", "cost"]].sum().plot.bar()
def pandas_boxes(): FRAME[["size", "cost"]].plot.box()
def pandas_pie(): FRAME.groupby("kind")["size"].count().plot.pie()
def pandas_area(): FRAME[["cost"]].head(3).plot.area()
def seaborn_lines(): sns.lineplot(FRAME, x="cost", y="size", hue="side", errorbar=("pi", 50))
def seaborn_bars(): sns.barplot(FRAME, x="kind", y="size", errorbar="sd")
def seaborn_histogram(): sns.histplot(FRAME, x="size", hue="side", bins=2)
def seaborn_boxes(): sns.boxplot(FRAME, x="kind", y="size", hue="side")
def seaborn_points(): sns.scatterplot(FRAME, x="size", y="cost", hue="side")
def seaborn_counts(): sns.countplot(FRAME, y="kind")
def seaborn_heatmap(): sns.heatmap(FRAME[["size", "cost"]].corr())
def seaborn_violins(): sns.violinplot(FRAME, x="kind", y="size")

def picture_of(draw, described):
    draw()
    figure, out = plt.gcf(), io.BytesIO()
    if described: charts.describe(figure)
    figure.savefig(out, format="raw", dpi=30)
    plt.close("all")
    return out.getvalue()

found = {}
for name, draw in list(globals().items()):
    if getattr(draw, "__module__", None) == "__main__" and draw.__code__.co_argcount == 0:
        draw()
        found[name] = charts.describe(plt.gcf())
        plt.close("all")
same = [lines, dates_and_log, grouped_bars, boxes, two_axes, pandas_months, seaborn_points]
found["changed"] = [draw.__name__ for draw in same if picture_of(draw, False) != picture_of(draw, True)]
found["no figure"] = [charts.describe(value) for value in (None, 3, "x", object())]
print(json.dumps(found, allow_nan=False))
"""


@pytest.fixture(scope="module")
def described(jail: None) -> dict[str, Any]:
    with cloche.Sandbox() as box:
        # Sandboxes cannot read our package, so this copies the part of it that is needed.
        for source in Path(charts.__file__).parent.glob("*.py"):
            box.files.write(f"cloche/kernels/charts/{source.name}", source.read_text())
        result = box.run_program(FIGURES, timeout=120)  # 6 s of CPU time, which other tests may delay
    assert result.ok, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def labels(chart: Chart) -> list[str]:
    return [element["label"] for element in chart["elements"]]


def values(chart: Chart) -> list[tuple[str, str, float]]:
    return [(element["group"], element["label"], element["value"]) for element in chart["elements"]]


# --- lines and points


def test_lines_have_their_labels_and_points_and_what_is_not_finite_is_null(described):
    chart = described["lines"]
    assert chart["type"] == "line"
    assert chart["elements"] == [
        {"label": "A", "points": [[1, 4], [2, None], [3, None]]},
        {"label": "B", "points": [[1, 1], [2, 2], [3, 3]]},
    ]


def test_titles_labels_and_units_are_told(described):
    chart = described["lines"]
    assert (chart["title"], chart["x_label"], chart["y_label"]) == ("Speed", "time (s)", "speed [m/s]")
    assert (chart["x_unit"], chart["y_unit"]) == ("s", "m/s")


def test_a_line_across_the_axes_is_a_reference_not_data(described):
    assert described["lines"]["references"] == [{"axis": "y", "value": 2, "label": "goal"}]


@pytest.mark.parametrize("name", ["lines", "bars", "boxes", "points", "heatmap"])
def test_every_key_that_e2b_knows_is_there_even_when_null(described, name):
    for axis in ("x", "y"):
        for key in ("label", "unit", "ticks", "tick_labels", "scale"):
            assert f"{axis}_{key}" in described[name]
    assert {"type", "title", "elements"} <= described[name].keys()


def test_dates_are_iso_texts_and_scales_are_named(described):
    chart = described["dates_and_log"]
    assert chart["elements"][0]["points"] == [["2024-01-01T00:00:00", 1], ["2024-06-01T00:00:00", 1000]]
    assert (chart["x_scale"], chart["y_scale"]) == ("datetime", "log")
    assert chart["x_ticks"][0] == "2024-01-01T00:00:00"
    assert chart["y_tick_labels"] == ["10^0", "10^1", "10^2", "10^3"]


def test_categories_are_texts(described):
    chart = described["categories"]
    assert chart["x_scale"] == "categorical"
    assert chart["elements"][0]["points"] == [["low", 1], ["high", 2]]
    assert chart["x_tick_labels"] == ["low", "high"]


def test_a_long_line_is_thinned_evenly_and_says_how_long_it_was(described):
    (line,) = described["long_line"]["elements"]
    assert len(line["points"]) == chart_limits.POINTS
    assert line["points_total"] == 1_000_000
    assert line["points"][0] == [0, 0]
    assert line["points"][-1] == [999_999, 999_999]
    steps = {b[0] - a[0] for a, b in zip(line["points"], line["points"][1:], strict=False)}
    assert max(steps) - min(steps) <= 1


def test_many_lines_are_bounded_in_number_and_in_all(described):
    chart = described["many_lines"]
    assert len(chart["elements"]) == chart_limits.ELEMENTS
    assert chart["elements_total"] == 70
    assert sum(len(line["points"]) for line in chart["elements"]) <= chart_limits.POINTS_IN_ALL


def test_points_are_a_scatter_whichever_way_they_are_drawn(described):
    for name, label in (("points", "P"), ("markers_only", "")):
        assert described[name]["type"] == "scatter"
        assert described[name]["elements"] == [{"label": label, "points": [[1, 3], [2, 4]]}]


def test_error_bars_and_bands_are_ranges_of_their_points(described):
    (line,) = described["error_bars"]["elements"]
    assert (line["label"], line["range"]) == ("E", [[2.5, 3.5], [3, 5]])
    (line,) = described["band"]["elements"]
    assert (line["label"], line["range"]) == ("L", [[2, 4], [3, 5]])


def test_an_area_tells_its_upper_line_and_its_base(described):
    (area,) = described["area"]["elements"]
    assert area == {"label": "F", "points": [[1, 2], [2, 3], [3, 4]], "kind": "area", "base": [0, 0, 1]}


# --- bars, pies, boxes


def test_bars_have_label_group_value_and_range(described):
    chart = described["bars"]
    assert (chart["type"], chart["orientation"]) == ("bar", "vertical")
    assert values(chart) == [("S", "a", 1), ("S", "b", -2)]
    assert chart["elements"][0]["range"] == [0.5, 1.5]


def test_lying_bars_are_read_along_the_other_axis(described):
    assert described["lying_bars"]["orientation"] == "horizontal"
    assert values(described["lying_bars"]) == [("", "a", 1), ("", "b", 2)]


def test_grouped_bars_share_the_labels_of_the_ticks_between_them(described):
    assert values(described["grouped_bars"]) == [("A", "p", 1), ("A", "q", 2), ("B", "p", 3), ("B", "q", 4)]


def test_stacked_bars_have_their_own_value_and_stand_on_a_base(described):
    upper = described["stacked_bars"]["elements"][1]
    assert (upper["value"], upper["base"]) == (3, 1)


def test_bars_on_days_are_labelled_by_day(described):
    assert labels(described["bars_on_days"]) == ["2024-01-01", "2024-06-01"]


def test_a_histogram_is_bars_labelled_by_their_intervals(described):
    chart = described["histogram"]
    assert (chart["type"], chart["kind"]) == ("bar", "histogram")
    assert [(e["label"], e["value"]) for e in chart["elements"]] == [
        ("0 to 1", 2), ("1 to 2", 1), ("2 to 3", 3), ("3 to 4", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["pie", "pie_named_by_legend"])
def test_a_pie_has_label_angle_and_radius_of_its_slices(described, name):
    assert described[name]["type"] == "pie"
    slices = [(part["label"], part["angle"], part["radius"]) for part in described[name]["elements"]]
    assert slices == [("yes", 270, 1), ("no", 90, 1)]


def test_boxes_are_found_in_the_lines_that_they_are_drawn_with(described):
    chart = described["boxes"]
    assert chart["type"] == "box_and_whisker"
    assert chart["elements"] == [
        {"label": "A", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 4, "outliers": [100]},
        {"label": "B", "min": 2, "first_quartile": 3, "median": 4, "third_quartile": 5, "max": 6, "outliers": []},
    ]
    assert "also" not in chart


def test_boxes_are_found_lying_notched_filled_and_with_means(described):
    chart = described["odd_boxes"]
    assert (chart["type"], chart["orientation"]) == ("box_and_whisker", "horizontal")
    (box,) = chart["elements"]
    assert (box["min"], box["median"], box["max"], box["mean"], box["outliers"]) == (1, 3, 5, 3, [])


def test_a_box_without_any_spread_is_a_box(described):
    (box,) = described["equal_values"]["elements"]
    assert (box["min"], box["median"], box["max"]) == (5, 5, 5)


# --- several kinds, several axes, and other kinds


def test_a_second_kind_in_the_same_axes_is_told_beside_the_first(described):
    chart = described["bars_and_line"]
    assert chart["type"] == "bar"
    assert chart["also"] == [{"type": "line", "elements": [{"label": "trend", "points": [[1, 2], [2, 3]]}]}]


def test_several_axes_are_a_superchart_of_those_that_show_something(described):
    chart = described["two_axes"]
    assert (chart["type"], chart["title"]) == ("superchart", "Both")
    assert [(part["type"], part["title"]) for part in chart["elements"]] == [("line", None), ("bar", "R")]


def test_axes_are_bounded_in_number(described):
    assert len(described["many_axes"]["elements"]) == chart_limits.AXES
    assert described["many_axes"]["elements_total"] == 25


def test_a_heatmap_is_unknown_with_its_shape_its_values_and_the_name_of_its_colours(described):
    chart = described["heatmap"]
    assert (chart["type"], chart["kind"], chart["title"]) == ("unknown", "heatmap", "H")
    assert (chart["shape"], chart["values"]) == ([2, 2], [[1, 2], [3, None]])
    assert (chart["min"], chart["max"], chart["color_label"]) == (1, 3, "heat")


@pytest.mark.parametrize(("name", "kind"), [("picture", "image"), ("contours", "QuadContourSet"), ("solid", "3d")])
def test_what_has_no_points_to_tell_says_what_it_is(described, name, kind):
    assert (described[name]["type"], described[name]["kind"]) == ("unknown", kind)


def test_the_round_ground_of_a_polar_chart_is_no_pie(described):
    assert described["polar"]["type"] == "line"
    assert "also" not in described["polar"]


def test_an_empty_figure_is_unknown(described):
    assert (described["empty"]["type"], described["empty"]["elements"]) == ("unknown", [])


def test_texts_are_bounded(described):
    assert len(described["long_texts"]["title"]) == chart_limits.TEXT
    assert len(described["long_texts"]["elements"][0]["label"]) == chart_limits.TEXT


def test_a_formatter_that_fails_costs_the_tick_labels_alone(described):
    assert described["bad_formatter"]["x_tick_labels"] == []
    assert described["bad_formatter"]["elements"][0]["points"] == [[0, 1], [1, 2]]


def test_what_is_no_figure_has_no_description(described):
    assert described["no figure"] == [None] * 4


def test_a_figure_looks_the_same_after_it_was_described(described):
    assert described["changed"] == []


# --- what pandas and seaborn draw


def test_pandas_lines(described):
    chart = described["pandas_lines"]
    assert (chart["type"], chart["title"], labels(chart)) == ("line", "T", ["size", "cost"])


def test_pandas_periods_are_dates(described):
    chart = described["pandas_months"]
    assert chart["x_scale"] == "datetime"
    points = [["2024-01-01T00:00:00", 1], ["2024-02-01T00:00:00", 2]]
    assert chart["elements"] == [{"label": "m", "points": points}]


def test_pandas_bars(described):
    assert values(described["pandas_bars"])[:4] == [
        ("size", "a", 76), ("size", "b", 92), ("size", "c", 108), ("cost", "a", 27),
    ]  # fmt: skip


def test_pandas_boxes_and_pies(described):
    assert labels(described["pandas_boxes"]) == ["size", "cost"]
    assert [(part["label"], part["angle"]) for part in described["pandas_pie"]["elements"]] == [
        ("a", 120), ("b", 120), ("c", 120),
    ]  # fmt: skip


def test_the_line_on_top_of_a_pandas_area_is_not_told_twice(described):
    (area,) = described["pandas_area"]["elements"]
    assert (area["label"], area["kind"], area["base"]) == ("cost", "area", [0, 0, 0])


def test_seaborn_lines_have_the_names_of_the_legend_and_bands(described):
    chart = described["seaborn_lines"]
    assert (chart["type"], labels(chart)) == ("line", ["x", "y"])
    assert all(len(line["range"]) == len(line["points"]) for line in chart["elements"])


def test_seaborn_bars_have_their_error_bars(described):
    chart = described["seaborn_bars"]
    assert values(chart) == [("", "a", 9.5), ("", "b", 11.5), ("", "c", 13.5)]
    assert all(bar["range"][0] < bar["value"] < bar["range"][1] for bar in chart["elements"])
    assert "also" not in chart


def test_seaborn_histograms_are_grouped_by_hue(described):
    chart = described["seaborn_histogram"]
    assert chart["kind"] == "histogram"
    assert sorted(values(chart)) == [
        ("x", "0 to 11.5", 6), ("x", "11.5 to 23", 6), ("y", "0 to 11.5", 6), ("y", "11.5 to 23", 6),
    ]  # fmt: skip


def test_seaborn_boxes_have_label_and_group(described):
    chart = described["seaborn_boxes"]
    assert chart["type"] == "box_and_whisker"
    assert {(box["label"], box["group"]) for box in chart["elements"]} == {(a, b) for a in "abc" for b in "xy"}


def test_seaborn_points_are_split_by_hue(described):
    chart = described["seaborn_points"]
    assert (chart["type"], labels(chart)) == ("scatter", ["x", "y"])
    assert [len(element["points"]) for element in chart["elements"]] == [12, 12]


def test_seaborn_counts_heatmaps_and_violins(described):
    assert values(described["seaborn_counts"]) == [("", "a", 8), ("", "b", 8), ("", "c", 8)]
    assert described["seaborn_heatmap"]["x_tick_labels"] == ["size", "cost"]
    assert [violin["label"] for violin in described["seaborn_violins"]["violins"]] == ["a", "b", "c"]
