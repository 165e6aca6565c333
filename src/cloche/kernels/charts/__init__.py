"""Charts as data: describes what a Matplotlib figure shows; displays send the description with the picture."""

from cloche.kernels.charts.figure import describe

__all__ = ["describe"]
