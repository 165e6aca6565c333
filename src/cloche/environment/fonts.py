"""Run by the builder with the environment's packages: writes Matplotlib's font list and defaults as seen from inside.

Without the list, the first chart of every sandbox would search the system for fonts, which takes seconds.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

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

_DEFAULTS = """\
# Written by cloche.environment for the fonts found when the environment was built.
backend: agg
font.family: {families}
"""


def main(site_packages: str, share: str) -> None:
    """Writes `fontlist-v….json` and `matplotlibrc` into the directory `share`."""
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

    directory = Path(share)
    directory.mkdir(parents=True, exist_ok=True)
    font_manager.json_dump(manager, directory / f"fontlist-v{manager.__version__}.json")
    (directory / "matplotlibrc").write_text(_DEFAULTS.format(families=", ".join(families)))


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
    stand_in = next((name for name in _CJK if name in installed), None)
    names = [name for name in _ALSO_CALLED if name not in installed]
    return [dataclasses.replace(font, name=name) for font in fonts if font.name == stand_in for name in names]


def _weights(fonts: list[Any], families: list[str], weights: set[int]) -> list[Any]:
    # Matplotlib warns of every family in the list that lacks the weight of a title, used or not.
    added = []
    faces: dict[tuple[str, str, str], dict[int, Any]] = {}
    for font in fonts:
        if font.name in (*families, *_ALSO_CALLED):
            faces.setdefault((font.name, font.style, font.stretch), {}).setdefault(font.weight, font)
    for drawn in faces.values():
        for weight in sorted(weights - drawn.keys()):
            nearest = min(drawn, key=lambda other: abs(other - weight))
            added.append(dataclasses.replace(drawn[nearest], weight=weight))
    return added


if __name__ == "__main__":
    main(*sys.argv[1:])
