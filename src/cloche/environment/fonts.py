"""Run by the builder with the environment's packages: writes Matplotlib's font list and defaults as seen from inside.

Without the list, the first chart of every sandbox would search the system for fonts, which takes seconds.  The list
also has names of fonts that are not installed, and Matplotlib itself gets a fallback for glyphs (font_fallback.py).
"""

import dataclasses
import py_compile
import shutil
import sys
from pathlib import Path
from typing import Any

_INSIDE = "/opt/env"

# The first installed font of each row supplies the glyphs that DejaVu Sans lacks.
_CJK = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback")
_SYMBOLS = ("Symbola", "Noto Emoji")
_OTHER_SCRIPTS = ("FreeSerif",)

# Fonts that programs written for other systems name to get Chinese, Japanese or Korean.
_ALSO_CALLED = (
    *("Arial Unicode MS", "Heiti SC", "Microsoft YaHei", "PingFang SC", "SimHei", "SimSun", "Source Han Sans SC"),
    *(
        "Hiragino Sans",
        "IPAexGothic",
        "Meiryo",
        "MS Gothic",
        "Yu Gothic",
        "AppleGothic",
        "Malgun Gothic",
        "NanumGothic",
    ),
    *_CJK,
)

# Other names that programs write by habit, and the fonts that stand in for them: the first installed one does.
_STAND_INS = (
    (
        ("Liberation Sans", "Arimo", "DejaVu Sans"),
        "Arial|Helvetica|Helvetica Neue|Verdana|Tahoma|Calibri|Segoe UI|Roboto|Open Sans|Lato|Lucida Grande|Inter"
        "|Trebuchet MS|Geneva|Bitstream Vera Sans|Ubuntu|Noto Sans|Montserrat|Source Sans Pro|Liberation Sans",
    ),
    (
        ("Liberation Serif", "Tinos", "DejaVu Serif"),
        "Times New Roman|Times|Georgia|Cambria|Garamond|Palatino|Palatino Linotype|Book Antiqua|Noto Serif"
        "|Bitstream Vera Serif|Computer Modern Roman|CMU Serif|Liberation Serif",
    ),
    (
        ("Liberation Mono", "Cousine", "DejaVu Sans Mono"),
        "Courier New|Courier|Consolas|Monaco|Menlo|Lucida Console|Noto Sans Mono|Source Code Pro|Fira Code|Fira Mono"
        "|JetBrains Mono|Bitstream Vera Sans Mono|Liberation Mono",
    ),
    (_SYMBOLS, "Noto Color Emoji|Apple Color Emoji|Segoe UI Emoji|Segoe UI Symbol|Noto Emoji|Symbola"),
    (_CJK, "|".join(_ALSO_CALLED)),
)

_HOOK = """

# Appended by Cloche.
import sys
from matplotlib import _font_fallback
_font_fallback.install(sys.modules[__name__])
"""

_DEFAULTS = """\
# Written by cloche.environment for the fonts found when the environment was built.
backend: agg
font.family: {families}
"""


def main(site_packages: str, share: str) -> None:
    """Writes `fontlist-v….json` and `matplotlibrc` into the directory `share`, and adds the fallback to Matplotlib."""
    sys.path.insert(0, site_packages)
    import matplotlib
    from matplotlib import font_manager

    manager = font_manager.fontManager
    fonts = [font for font in manager.ttflist if _is_seen_inside(font.fname, matplotlib.get_data_path())]
    installed = {font.name for font in fonts}
    families = _families(installed)
    fonts += _aliases(fonts, installed)
    fonts += _weights(fonts, families, set(font_manager.weight_dict.values()))
    manager.ttflist = fonts
    manager.fallback_families = families[1:]  # for font_fallback.py

    directory = Path(share)
    directory.mkdir(parents=True, exist_ok=True)
    font_manager.json_dump(manager, directory / f"fontlist-v{manager.__version__}.json")
    (directory / "matplotlibrc").write_text(_DEFAULTS.format(families=", ".join(families)))
    _add_fallback(Path(site_packages, "matplotlib"))


def _is_seen_inside(font: str, bundled: str) -> bool:
    # Fonts in other places, such as the home directory, exist only for this host's user.
    return font.startswith((f"{bundled}/", "/usr/share/fonts/"))


def _families(installed: set[str]) -> list[str]:
    # DejaVu Sans by name as well: programs that replace the sans-serif list must not lose the Latin letters.
    families = ["sans-serif", "DejaVu Sans"]
    for row in (_CJK, _SYMBOLS, _OTHER_SCRIPTS):
        families += [name for name in row if name in installed][:1]
    return families


def _aliases(fonts: list[Any], installed: set[str]) -> list[Any]:
    added = []
    for candidates, others in _STAND_INS:
        stand_in = next((name for name in candidates if name in installed), None)
        names = [name for name in others.split("|") if name not in installed]
        added += [dataclasses.replace(font, name=name) for font in fonts if font.name == stand_in for name in names]
    return added


def _add_fallback(matplotlib: Path) -> None:
    shutil.copy(Path(__file__).with_name("font_fallback.py"), matplotlib / "_font_fallback.py")
    source = matplotlib / "font_manager.py"
    if _HOOK not in source.read_text(encoding="utf-8"):
        text = source.read_text(encoding="utf-8") + _HOOK
        source.unlink()  # it may be a link to a file of another environment
        source.write_text(text, encoding="utf-8")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    inside = f"{_INSIDE}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/matplotlib"
    for path in (source, matplotlib / "_font_fallback.py"):
        py_compile.compile(str(path), dfile=f"{inside}/{path.name}", doraise=True, invalidation_mode=mode)


def _weights(fonts: list[Any], families: list[str], weights: set[int]) -> list[Any]:
    # Matplotlib warns of every family in the list that lacks the weight of a title, used or not.
    added = []
    named = {*families, *(name for _, others in _STAND_INS for name in others.split("|"))}
    faces: dict[tuple[str, str, str], dict[int, Any]] = {}
    for font in fonts:
        if font.name in named:
            faces.setdefault((font.name, font.style, font.stretch), {}).setdefault(font.weight, font)
    for drawn in faces.values():
        for weight in sorted(weights - drawn.keys()):
            nearest = min(drawn, key=lambda other: abs(other - weight))
            added.append(dataclasses.replace(drawn[nearest], weight=weight))
    return added


if __name__ == "__main__":
    main(*sys.argv[1:])
