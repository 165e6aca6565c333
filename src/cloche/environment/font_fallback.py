"""Copied into the environment's Matplotlib by fonts.py: draws glyphs that a chart's fonts lack with other fonts.

Matplotlib looks for a glyph in the families of `font.family` only.  Programs and seaborn replace that list, and then
Chinese, Japanese, Korean and emoji would be empty boxes, with a warning for each of them.
"""

import functools
from typing import Any


def install(fonts: Any) -> None:
    """Let every search for fonts end with the fallback; `fonts` is the module `matplotlib.font_manager`."""
    find = fonts.FontManager._find_fonts_by_props

    @functools.wraps(find)
    def find_with_fallback(self: Any, prop: Any, *given: Any, **named: Any) -> list[str]:
        paths: list[str] = find(self, prop, *given, **named)
        if given or named:
            return paths  # another kind of fonts, or a folder
        # The list of fonts has the families, if fonts.py has written it.
        wanted = fonts.FontProperties._from_any(prop)
        for family in getattr(self, "fallback_families", ()):
            if family not in wanted.get_family():
                other = wanted.copy()
                other.set_file(None)
                other.set_family(family)
                path = self.findfont(other)
                if path not in paths:
                    paths.append(path)
        return paths

    fonts.FontManager._find_fonts_by_props = find_with_fallback
    fonts._log.addFilter(_Once())


class _Once:
    """Lets each message about a missing family through once: Matplotlib repeats it for every text that it draws."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def filter(self, record: Any) -> bool:
        """Return whether the record is logged."""
        text = record.getMessage()
        if not (text.startswith("findfont: ") and " not found" in text):
            return True
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new
