"""A result in a notebook: complete, short, and nothing from a sandbox becomes markup there."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche.environment import location
from cloche.model.result import TABLE, Artifact, Display, Error, Log, Raised, Result, StackFrame

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EVIL = '</pre><script>alert(1)</script><img src=x onerror=alert(1)>" onload="alert(1)\' $x$ \x1b[31m'
HARMLESS = {"div", "pre", "img", "b", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}


def result(**fields: Any) -> Result:
    given = {"stdout": "", "stderr": "", "exit_code": 0, "duration": 0.25, "cpu_time": 0.1, "memory_peak": 1}
    return Result(**{**given, **fields})


def page(shown: Result) -> str:
    return shown._repr_mimebundle_(include=None, exclude=None)["text/html"]


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_nothing_from_a_sandbox_becomes_markup() -> None:
    table = {
        "columns": [{"name": EVIL, "type": EVIL}],
        "index": {"names": [EVIL], "type": EVIL, "values": [EVIL]},
        "shape": [EVIL, EVIL],
        "rows": [[EVIL]],
    }
    forms: list[dict[str, Any]] = [
        {"text/html": EVIL, "text/plain": EVIL},
        {"text/markdown": EVIL},
        {"text/latex": EVIL},
        {"application/javascript": EVIL},
        {"image/png": EVIL, "text/plain": EVIL},
        {"image/png": b64encode(EVIL.encode()).decode()},
        {"image/png": PIXEL + '"onload="alert(1)', "text/plain": EVIL},
        {"image/svg+xml": f"<svg>{EVIL}</svg>"},
        {TABLE: table},
        {TABLE: {"columns": EVIL, "rows": [1], "shape": 3}},
        {EVIL: EVIL},
    ]
    frame = StackFrame(EVIL, 1, 1, EVIL, EVIL)
    whole = result(
        logs=(Log("stdout", EVIL, 0.0), Log("stderr", EVIL, 0.0)),
        results=tuple(Display(form, {"width": EVIL}) for form in forms),
        error=Error("runtime", EVIL, EVIL, EVIL, EVIL, EVIL, (Raised(EVIL, EVIL, "cause", (frame,)),)),
        artifacts=(Artifact(EVIL, 3, EVIL),),
    )
    found = Tags(page(whole))
    assert {tag for tag, _ in found.tags} <= HARMLESS
    for tag, attributes in found.tags:
        assert set(attributes) <= {"style", "class", "title", "alt", "src"}, tag
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
        assert "alert" not in (attributes.get("style") or "")
    pictures = [attributes["src"] for tag, attributes in found.tags if tag == "img"]
    assert len(pictures) == 2  # the pixel, without what followed it, and the SVG
    assert pictures[0] == f"data:image/png;base64,{PIXEL}"
    assert found.text.count("<script>alert(1)</script>") > 10  # as text
    # A notebook would make formulas of `$x$`, if the whole were not marked.
    assert "mathjax_ignore" in str(found.tags[0][1]["class"])


def test_a_cell_shows_its_output_tables_and_charts(box: cloche.Sandbox) -> None:
    shown = box.run(
        "import pandas as pd, matplotlib.pyplot as plt\nprint('printed')\nplt.plot([1, 2]); plt.show()\n"
        "pd.DataFrame({'town': ['Bern', 'Rome'], 'sold': [3.5, 5]}, index=['a', 'b'])"
    )
    found = Tags(page(shown))
    order = [tag for tag, _ in found.tags if tag in ("pre", "img", "table")]
    assert order == ["pre", "img", "table"]
    assert found.text.split() == [
        *("printed", "town", "sold", "a", "Bern", "3.5", "b", "Rome", "5"),
        *["2", "rows", "×", "2", "columns"],  # noqa: RUF001
        *f"<Result: ok, {shown.duration:.3g} s, 2 displays>".split(),
    ]


def test_an_error_shows_the_lines_of_ones_own_and_hides_the_rest(jail: None) -> None:
    shown = cloche.run("import json\njson.loads('{')")
    found = Tags(page(shown))
    assert "code/main.py, line 2:  json.loads('{')" in found.text
    assert found.text.count("Traceback (most recent call last)") == 1  # in the fold, not in standard error as well
    assert [tag for tag, _ in found.tags if tag in ("details", "summary")] == ["details", "summary"]


def test_much_output_makes_a_page_of_bounded_size() -> None:
    picture = Display({"image/svg+xml": "x" * (6 << 20)})
    shown = result(
        stdout="x" * (5 << 20), results=(picture,) * 60, error=Error("runtime", "m" * 99_999, "", "E", "t" * 99_999)
    )
    assert len(page(shown)) < 40 << 20
    assert "characters left out" in page(shown)
    assert "10 more displays" in page(shown)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"stdout": "first\nsecond\n"}, "<Result: ok, 0.25 s, output 'first…'>"),
        ({"results": (Display({"text/plain": "42"}, is_main=True),)}, "<Result: ok, 0.25 s, value '42'>"),
        ({"results": (Display({}), Display({}))}, "<Result: ok, 0.25 s, 2 displays>"),
        (
            {"error": Error("runtime", "no\nat all", "", "ValueError"), "exit_code": 1},
            "<Result: runtime, exit code 1, 0.25 s, 'ValueError: no…'>",
        ),
        ({"stdout": "\x1b[31m\x07 red" + "x" * 10_000}, "<Result: ok, 0.25 s, output '\\x1b[31m\\x07 red"),
    ],
)
def test_the_repr_is_one_short_line(fields: dict[str, Any], line: str) -> None:
    text = repr(result(**fields))
    assert text.startswith(line)
    assert "\n" not in text
    assert len(text) < 150


def test_ipythons_own_formatter_takes_it(jail: None) -> None:
    """With IPython of the sandboxes' environment, in a process of the host that imports Cloche."""
    (packages,) = Path(location()).glob("lib/python*/site-packages")
    code = """
import json, sys, cloche
sys.path.append(sys.argv[1])
from IPython.core.formatters import DisplayFormatter
formatter = DisplayFormatter()
formatter.active_types = formatter.format_types
print(json.dumps(formatter.format(cloche.run("print(6 * 7)", url=""))))
"""
    done = subprocess.run([sys.executable, "-c", code, str(packages)], stdout=subprocess.PIPE, text=True, check=True)
    data, metadata = json.loads(done.stdout)
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"].startswith("<Result: ok, ")
    assert ">42</pre>" in data["text/html"]
    assert metadata == {}
