"""Charts show Chinese, Japanese, Korean and emoji, whatever fonts a program names."""

from collections.abc import Iterator

import pytest

import cloche

pytestmark = pytest.mark.usefixtures("jail")

# Matplotlib warns of every glyph that none of the fonts has.
CHART = """
from matplotlib import pyplot
figure, axes = pyplot.subplots()
axes.plot([-1, 2, 3], label="数据")
axes.set_title("中文 日本語 한국어 😀 Ω", weight="bold")
axes.set_xlabel("été \\u2212 größer")
axes.legend()
figure.savefig("/tmp/chart.png")
pyplot.close("all")
"""
CHOICES = {
    "nothing": "",
    "seaborn": "import seaborn; seaborn.set_theme()",
    "seaborn with a font": "import seaborn; seaborn.set_theme(font='Helvetica')",
    "Arial": "from matplotlib import rcParams; rcParams['font.family'] = 'Arial'",
    "a list": "from matplotlib import rcParams; rcParams['font.sans-serif'] = ['Arial', 'Verdana']",
    "SimHei": "from matplotlib import rcParams; rcParams['font.sans-serif'] = ['SimHei', 'Microsoft YaHei']",
    "Noto": "from matplotlib import rcParams; rcParams['font.family'] = ['Noto Sans CJK JP', 'Noto Color Emoji']",
    "Times": "import matplotlib; matplotlib.rc('font', family='Times New Roman', weight='bold')",
    "Courier": "import matplotlib; matplotlib.rc('font', family='Courier New')",
    "serif": "import matplotlib; matplotlib.rc('font', family='serif')",
    "a style": "from matplotlib import pyplot; pyplot.style.use('ggplot'); pyplot.rcdefaults()",
}


@pytest.fixture(scope="module")
def drawing(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(memory="1G", timeout=120) as box:
        fonts = "import matplotlib.font_manager as f\nprint(len(f.fontManager.fallback_families))"
        if box.run_program(fonts).stdout.strip() < "3":
            pytest.skip("this host had no fonts for other scripts when the environment was built")
        yield box


@pytest.mark.parametrize("choice", CHOICES)
def test_no_glyph_is_missing_whatever_fonts_are_chosen(drawing, choice):
    result = drawing.run_program(f"{CHOICES[choice]}\n{CHART}")

    assert (result.error, result.stderr) == (None, "")


def test_it_holds_in_cells_and_in_programs_that_programs_start(drawing):
    code = f"{CHOICES['seaborn']}\n{CHOICES['Arial']}\n{CHART}"
    drawing.files.write("chart.py", code)

    results = [
        drawing.run(code),
        drawing.commands.run(["python3", "chart.py"]),
        cloche.run(code, memory="1G", timeout=120),
    ]

    assert [(result.error, result.stderr) for result in results] == [(None, "")] * 3


def test_a_family_that_nobody_knows_is_reported_once(drawing):
    result = drawing.run_program("from matplotlib import rcParams; rcParams['font.family'] = 'Unheard Of'\n" + CHART)

    assert result.stderr == "findfont: Font family 'Unheard Of' not found.\n"


def test_a_font_that_has_the_glyph_comes_first(drawing):
    code = (
        "from matplotlib import font_manager as f\n"
        "paths = f.fontManager._find_fonts_by_props(f.FontProperties(family='DejaVu Serif'))\n"
        "print(paths[0].rpartition('/')[2], len(paths) > 3)"
    )

    assert drawing.run_program(code).stdout == "DejaVuSerif.ttf True\n"
