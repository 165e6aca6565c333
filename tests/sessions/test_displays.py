"""What cells show: figures, tables and everything else that has more forms than text, in order."""

# ruff: noqa: E501  (what a library is asked for is easier to compare when each is one line)

from __future__ import annotations

import struct
from typing import Any

import pytest

import cloche
from cloche.model.events import Shown
from cloche.model.result import CHART, TABLE, Display

PLOTLY = "application/vnd.plotly.v1+json"


def shown(result: cloche.Result) -> tuple[Display, ...]:
    """What a cell that went well displayed."""
    assert result.ok, result.error
    return result.results


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height of a picture."""
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_displays_and_the_last_expression_come_in_order(shared: cloche.Sandbox) -> None:
    displays = shown(shared.run("display('one')\ndisplay('two', 'three')\n'four'"))
    assert [display.text for display in displays] == ["'one'", "'two'", "'three'", "'four'"]
    assert [display.is_main for display in displays] == [False, False, False, True]


def test_a_display_is_updated_in_place(shared: cloche.Sandbox) -> None:
    result = shared.run("handle = display('first', display_id='here')\ndisplay('other')\nhandle.update('second')")
    assert [display.text for display in shown(result)] == ["'second'", "'other'"]
    assert result.results[0].display_id == "here"


def test_a_display_that_begins_empty_is_where_it_was_begun(shared: cloche.Sandbox) -> None:
    code = "handle = display(display_id=True)\ndisplay('next')\nfor n in range(3): handle.update(n)"
    assert [display.text for display in shared.run(code).results] == ["2", "'next'"]
    events = [event for event in shared.stream(code) if isinstance(event, Shown)]
    assert [(event.result.text, event.update) for event in events] == [
        ("'next'", False),
        ("0", False),
        ("1", True),
        ("2", True),
    ]
    assert shared.run("handle = display(display_id=True)").results == ()


def test_an_update_of_an_earlier_cells_display_is_an_event(shared: cloche.Sandbox) -> None:
    shared.run("handle = display('first', display_id=True)")
    events = [event for event in shared.stream("handle.update('second')") if event.kind == "result"]
    assert [(event.update, event.result.text) for event in events] == [(True, "'second'")]


def test_a_cleared_display_is_told_while_it_happens(shared: cloche.Sandbox) -> None:
    code = "from IPython.display import clear_output\nfor n in range(3): clear_output(); display(n)"
    kinds = [event.kind for event in shared.stream(code)]
    assert kinds.count("clear") == 3
    assert kinds.count("result") == 3


# --- figures


def test_every_figure_of_a_cell_arrives_in_order_without_being_asked_for(shared: cloche.Sandbox) -> None:
    code = "import matplotlib.pyplot as plt\nfor n in (1, 2, 3):\n    plt.figure()\n    plt.title(f'figure {n}')\n    plt.plot([n])"
    displays = shown(shared.run(code))
    assert [display.chart["title"] for display in displays if display.chart] == ["figure 1", "figure 2", "figure 3"]
    assert all(display.data("image/png").startswith(b"\x89PNG") for display in displays if display.png)
    assert sum(display.png is not None for display in displays) == 3
    assert not any(display.png for display in shown(shared.run("1")))


def test_figures_that_are_shown_come_where_they_are_shown(shared: cloche.Sandbox) -> None:
    code = "import matplotlib.pyplot as plt\nprint('a')\nplt.plot([1]); plt.show()\nprint('b')\nplt.plot([2]); plt.show()\nprint('c')"
    kinds = [event.kind for event in shared.stream(code)]
    assert kinds == ["started", "stdout", "result", "stdout", "result", "stdout", "end"]


def test_a_figure_that_is_the_value_is_shown_once(shared: cloche.Sandbox) -> None:
    displays = shown(shared.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig"))
    assert [display.is_main for display in displays] == [True]
    assert displays[0].png


def test_a_figure_drawn_before_an_error_is_shown_all_the_same(shared: cloche.Sandbox) -> None:
    result = shared.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0")
    assert result.error.name == "ZeroDivisionError"
    assert [bool(display.png) for display in result.results] == [True]


@pytest.mark.parametrize("backend", ["", "notebook", "widget", "qt"])
def test_a_figure_that_would_have_a_window_is_displayed(shared: cloche.Sandbox, backend: str) -> None:
    result = shared.run(f"%matplotlib {backend}\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")
    assert result.ok, result.error
    assert [display.png is not None for display in result.results] == [True]


def test_figures_are_made_as_svg_or_for_fine_screens_when_asked(box: cloche.Sandbox) -> None:
    draw = "import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1), dpi=100)\nplt.plot([1])\nNone"
    plain = next(display for display in shown(box.run(draw)) if display.png)
    retina = next(
        display
        for display in shown(box.run("%config InlineBackend.figure_formats = ['retina']\n" + draw))
        if display.png
    )
    width, _ = size_of(plain.data("image/png"))
    assert size_of(retina.data("image/png"))[0] > 1.5 * width
    svg = next(
        display for display in shown(box.run("%config InlineBackend.figure_formats = ['svg']\n" + draw)) if display.svg
    )
    assert "<svg" in svg.svg


def test_a_chart_can_be_read(shared: cloche.Sandbox) -> None:
    code = "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2]); plt.title('Sales'); plt.xlabel('who'); plt.ylabel('how much')\nNone"
    chart = next(display.chart for display in shown(shared.run(code)) if display.chart)
    assert chart["title"] == "Sales"
    assert "bar" in str(chart)
    assert "how much" in str(chart)


# --- tables


def test_a_table_is_text_html_and_data(shared: cloche.Sandbox) -> None:
    (display,) = shown(shared.run("import pandas as pd; pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})"))
    assert "<table" in display.html
    assert display.text.split() == ["a", "b", "0", "1", "x", "1", "2", "y"]
    assert TABLE in display.mime
    assert "'a'" in str(display.table)
    assert "'x'" in str(display.table)


def test_a_wide_table_has_as_many_columns_as_in_a_notebook(box: cloche.Sandbox) -> None:
    box.run("import pandas as pd\nwide = pd.DataFrame({f'column_{n}': [1.5] for n in range(20)})")
    text = str(box.run("wide").text)
    assert "column_19" in text
    assert "..." not in text
    assert "..." in str(box.run("pd.concat([wide, wide], axis=1)").results[0].html)
    assert box.run("pd.reset_option('display.max_columns'); pd.get_option('display.max_columns')").text == "20"


def test_a_huge_table_is_bounded(shared: cloche.Sandbox) -> None:
    (display,) = shown(shared.run("import numpy as np, pandas as pd; pd.DataFrame(np.zeros((100_000, 50)))"))
    assert len(str(display.mime)) < 5 << 20
    assert "100000" in str(display.table)


# --- all the rest

FORMS: dict[str, tuple[str, str]] = {
    "markdown": ("from IPython.display import Markdown; Markdown('# Title')", "text/markdown"),
    "html": ("from IPython.display import HTML; HTML('<b>bold</b>')", "text/html"),
    "latex": ("from IPython.display import Latex; Latex('$x^2$')", "text/latex"),
    "json": ("from IPython.display import JSON; JSON({'a': [1, None]})", "application/json"),
    "javascript": ("from IPython.display import Javascript; Javascript('1 + 1')", "application/javascript"),
    "svg": ("from IPython.display import SVG; SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml"),
    "audio": ("import numpy as np; from IPython.display import Audio; Audio(np.zeros(800), rate=8000)", "text/html"),
    "sympy": ("import sympy; sympy.Symbol('x') ** 2", "text/latex"),
    "pillow": ("from PIL import Image; Image.new('RGB', (3, 2), 'red')", "image/png"),
    "plotly": ("import plotly.graph_objects as go; go.Figure(go.Bar(y=[1, 2]))", PLOTLY),
    "plotly shown": ("import plotly.graph_objects as go; go.Figure(go.Bar(y=[1, 2])).show()", PLOTLY),
    "altair": (
        "import altair as alt, pandas as pd; alt.Chart(pd.DataFrame({'a': [1]})).mark_bar().encode(x='a')",
        "vegalite",
    ),
    "bokeh": (
        "from bokeh.plotting import figure, show, output_notebook; output_notebook(hide_banner=True); p = figure(); p.line([1], [1]); show(p)",
        "text/html",
    ),
    "dict": ("{'a': [1, 2, {'b': None}]}", "application/json"),
    "polars": ("import polars as pl; pl.DataFrame({'a': [1]})", "text/html"),
    "seaborn": ("import seaborn as sns; sns.barplot(x=['a', 'b'], y=[1, 2])", "image/png"),
    "networkx": ("import networkx as nx; nx.draw(nx.path_graph(3))", "image/png"),
    "own": ("class Own:\n    def _repr_html_(self): return '<i>mine</i>'\nOwn()", "text/html"),
    "bundle": (
        "class Own:\n    def _repr_mimebundle_(self, **_): return {'application/x-mine': 'data', 'text/plain': 'text'}\nOwn()",
        "application/x-mine",
    ),
    "raw": ("display({'text/plain': 'a', 'application/x-raw': 'b'}, raw=True)", "application/x-raw"),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_libraries_show_arrives_in_its_own_form(shared: cloche.Sandbox, name: str) -> None:
    code, mime = FORMS[name]
    missing = {"altair": "altair", "bokeh": "bokeh"}.get(name)
    if missing and shared.run(f"import {missing}").error:
        pytest.skip(f"{missing} is not in the environment")
    displays = shown(shared.run(code, timeout=60))
    assert any(mime in form for display in displays for form in display.mime), displays


def test_the_text_of_a_chart_of_altair_is_its_own(shared: cloche.Sandbox) -> None:
    assert shared.run(FORMS["altair"][0]).text == "alt.Chart(...)"


def test_a_picture_is_the_picture_that_was_made(shared: cloche.Sandbox) -> None:
    (display,) = shown(shared.run("from PIL import Image; Image.new('RGB', (30, 20), 'red')"))
    assert size_of(display.data("image/png")) == (30, 20)


def test_json_arrives_as_what_it_is(shared: cloche.Sandbox) -> None:
    (display,) = shown(shared.run("{'a': [1, 2.5, None, True, 'ü'], 'b': {}}"))
    assert display.json == {"a": [1, 2.5, None, True, "ü"], "b": {}}


@pytest.mark.parametrize("value", ["float('inf')", "float('nan')", "10 ** 400"])
def test_numbers_that_json_does_not_know_break_nothing(shared: cloche.Sandbox, value: str) -> None:
    (display,) = shown(shared.run(f"{{'a': {value}}}"))
    assert display.text


# --- bounds


@pytest.mark.parametrize(
    "code",
    [
        "for n in range(100_000): display(n)",
        "from IPython.display import HTML\nHTML('x' * 50_000_000)",
        "display({'image/png': 'A' * 100_000_000}, raw=True)",
        "deep = []\nfor _ in range(100_000): deep = [deep]\ndisplay({'application/json': deep}, raw=True)",
        "display({'application/json': list(range(5_000_000))}, raw=True)",
        "display({f'x/{n}': 'x' for n in range(10_000)}, raw=True)",
        "loop = {}; loop['self'] = loop\nloop",
        "'x' * 200_000_000",
        "list(range(10_000_000))",
    ],
    ids=range(9),
)
def test_too_much_is_cut_and_the_session_goes_on(shared: cloche.Sandbox, code: str) -> None:
    shared.run("here = 1")
    result = shared.run(code, timeout=20)
    assert result.error is None or result.error.kind in ("runtime", "memory"), result.error
    assert not result.restarted
    assert len(result.results) <= 1000
    assert sum(len(str(display.mime)) for display in result.results) < 64 << 20
    assert shared.run("here").text == "1"


def test_no_form_of_a_result_names_the_host(shared: cloche.Sandbox) -> None:
    result: Any = shown(shared.run("import plotly; plotly.__file__"))
    assert "/root" not in str(result)
    assert CHART.startswith("application/vnd.cloche.")


def test_a_box_plot_takes_labels_under_the_name_that_models_write(shared: cloche.Sandbox) -> None:
    result = shared.run("import matplotlib.pyplot as plt\nplt.boxplot([[1, 2], [3, 4]], labels=['a', 'b'])\nplt.show()")
    assert shown(result)[0].png
