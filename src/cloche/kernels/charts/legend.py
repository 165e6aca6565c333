"""Finds names by colour, for artists without a name of their own."""

from __future__ import annotations

from cloche.kernels.charts.values import NO_LINE, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Color = tuple[float, ...]


def names_by_color(axes: Any) -> dict[Color, str]:
    """Return the legend's name for each colour that has exactly one, and that no artist uses as its own name."""
    legend = axes.get_legend() or next(iter(axes.get_figure().legends), None)
    if legend is None:
        return {}
    own = {line.get_label() for line in axes.lines if len(line.get_xdata(orig=True))}
    own |= {container.get_label() for container in axes.containers}
    own |= {collection.get_label() for collection in axes.collections if len(collection.get_paths())}
    names: dict[Color, set[str]] = {}
    for handle, entry in zip(legend.legend_handles, legend.get_texts(), strict=False):
        key, name = color_of(handle), text(entry.get_text())
        if key is not None and name and name not in own:
            names.setdefault(key, set()).add(name)
    return {key: found.pop() for key, found in names.items() if len(found) == 1}


def color_of(artist: Any) -> Color | None:
    """Return the visible colour of an artist."""
    try:
        if not hasattr(artist, "get_color"):
            color = artist.get_facecolor()
        elif artist.get_linestyle() in NO_LINE:
            color = artist.get_markerfacecolor()
        else:
            color = artist.get_color()
        return color_key(color[0] if getattr(color, "ndim", 1) == 2 else color)
    except Exception:
        return None


def color_key(color: Any) -> Color:
    """Return an equal key for colours that look equal, however they are written."""
    from matplotlib.colors import to_rgb

    return tuple(round(part, 2) for part in to_rgb(color))
