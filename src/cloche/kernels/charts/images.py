"""Heatmaps and pictures."""

from __future__ import annotations

from cloche.kernels.charts.chart_limits import CELLS
from cloche.kernels.charts.values import plain, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.kernels.charts.axes_contents import AxesContents


def read(artist: Any, contents: AxesContents) -> None:
    """Describe an image by its shape; numeric cells also by statistics, and in full if they are few."""
    import numpy

    cells = artist.get_array()
    shape = [int(size) for size in getattr(cells, "shape", ())]
    contents.more = {"kind": "heatmap" if len(shape) < 3 else "image", "shape": shape}
    bar = getattr(artist, "colorbar", None)
    if bar is not None:
        contents.more["color_label"] = text(bar.ax.get_ylabel() or bar.ax.get_xlabel())
    if len(shape) > 2 or cells.size == 0:
        return
    rows = numpy.ma.filled(numpy.ma.asarray(cells).astype(float), numpy.nan)
    known = rows[numpy.isfinite(rows)][:10_000_000]
    if known.size:
        contents.more |= {"min": plain(known.min()), "max": plain(known.max()), "mean": plain(known.mean())}
    if rows.size <= CELLS and rows.ndim == 2:
        contents.more["values"] = [[plain(value) for value in row] for row in rows]
