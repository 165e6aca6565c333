"""Warms up a new shell in the nursery, before kernels are forked: everything is slow the first time."""

from __future__ import annotations

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def warm_up(shell: Any) -> None:
    """Run cells of many kinds without showing their results, and reset the shell afterwards."""
    names = dict(shell.user_ns)
    hidden = dict(shell.user_ns_hidden)
    streams = sys.stdout, sys.stderr, sys.displayhook
    messages: list[Any] = []
    shell.send = shell.display_pub.send = lambda message, **_: messages.append(message)
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    sys.displayhook = shell.displayhook
    try:
        for cell in _CELLS:
            shell.display_pub.begin()
            shell.run_cell(cell, store_history=True)
    finally:
        sys.stdout, sys.stderr, sys.displayhook = streams
        shell.send = shell.display_pub.send = None
        _forget(shell, names, hidden)


def _forget(shell: Any, names: dict[str, Any], hidden: dict[str, Any]) -> None:
    import linecache

    shell.execution_count = 1
    shell.has_failed = False
    history = shell.history_manager
    history.input_hist_parsed[:] = history.input_hist_raw[:] = [""]
    history.output_hist.clear()
    shell._inputs = ("", "", "")
    shell.displayhook._ = shell.displayhook.__ = shell.displayhook.___ = ""
    for kept, before in ((shell.user_ns, names), (shell.user_ns_hidden, hidden)):
        kept.clear()
        kept.update(before)
    for name in [name for name in linecache.cache if name.startswith("<ipython-input")]:
        del linecache.cache[name]
    for name in ("last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)


_CELLS = (
    "x = 1\nx += 1; x",
    "[1, {'a': 2}]",
    "'text'",
    "print('text')",
    "  for i in range(2):\n      i",
    "%env HOME",
    "def f(): return 1 / 0\nf()",
    "a b",
    "import sys\nif 'pandas' in sys.modules:\n    import pandas\n    display(pandas.DataFrame({'a': [1, 2]}))",
    "import sys\nif 'matplotlib.pyplot' in sys.modules:\n"
    "    from matplotlib import pyplot\n    from IPython.core.pylabtools import print_figure\n"
    "    import matplotlib_inline.backend_inline\n"
    "    figure, axes = pyplot.subplots()\n    axes.plot([1, 2])\n    print_figure(figure, base64=True)\n"
    "    pyplot.close('all')\n"
    "    from matplotlib.backends.registry import backend_registry\n"
    "    backend_registry._ensure_entry_points_loaded()",  # by examining every installed package
    "import asyncio, getpass, pdb, subprocess, select, traceback",
)
