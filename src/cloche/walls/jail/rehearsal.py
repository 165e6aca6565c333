"""Uses each data library once before the nursery forks, because the first use of a library is slow."""

from __future__ import annotations

import sys

from cloche.agent.python import hide_from_programs


def rehearse() -> None:
    """Use each library a little, so that every sandbox inherits the modules and caches of the first use."""
    for step in (_tables, _charts):
        try:
            step()
        except Exception:
            continue  # the library is missing or different: sandboxes are slower without it, but still correct


def rehearse_kernel() -> None:
    """Prepare a kernel's shell, and hide its modules from programs, which run in forks of the same process."""
    from cloche.kernels import python as ipython

    before = set(sys.modules)
    try:
        ipython.prepare()
    except Exception:
        pass  # each kernel then prepares its own shell
    new = [name for name in sys.modules if name not in before]
    hide_from_programs([name for name in new if "site-packages" in str(getattr(sys.modules[name], "__file__", ""))])


def _tables() -> None:
    import numpy
    import pandas

    frame = pandas.DataFrame({"a": numpy.arange(10), "b": numpy.linspace(0, 1, 10), "c": list("abcdefghij")})
    repr(frame.describe())
    frame._repr_html_()
    frame.groupby("c").sum().to_json()
    frame.to_csv()
    pandas.to_datetime(["2026-01-01"])
    numpy.matmul(numpy.ones((2, 2)), numpy.ones((2, 2)))


def _charts() -> None:
    import io

    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.plot([0, 1, 4], label="line")
    axes.set_title("title")
    axes.set_xlabel("x")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close("all")
