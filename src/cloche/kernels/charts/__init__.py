"""Charts as data: a Matplotlib figure goes in, what it shows comes out, and displays send it beside the picture."""

from cloche.kernels.charts.figure import describe

__all__ = ["describe"]
