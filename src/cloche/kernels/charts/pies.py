"""Pies: each wedge is a slice."""

from __future__ import annotations

from cloche.kernels.charts.values import plain, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents


def read_slice(wedge: Any, contents: AxesContents) -> None:
    """Describe a slice by its angle."""
    angle = round(float(wedge.theta2) - float(wedge.theta1), 6)
    share = round(angle / 360, 6)
    part = {"label": contents.label(wedge), "angle": angle, "radius": plain(wedge.r), "share": share}
    contents.kinds["pie"].append(part)


def name_by_legend(contents: AxesContents) -> None:
    """Name slices by the legend, in its order, if they have no labels."""
    slices, legend = contents.kinds["pie"], contents.axes.get_legend()
    if slices and legend is not None and not any(part["label"] for part in slices):
        for part, entry in zip(slices, legend.get_texts(), strict=False):
            part["label"] = text(entry.get_text()) or ""
