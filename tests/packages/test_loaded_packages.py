"""Other versions of libraries that a warm Python has loaded: programs and new kernels use them, live kernels are named.

These tests install from the package index that the host uses, and are skipped where it has none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import cloche

NUMPY, PANDAS = "2.2.6", "2.2.3"
CHART_AND_TABLE = """
import pandas as pd
from matplotlib import pyplot
pyplot.plot([1, 4]); pyplot.title("Lines"); pyplot.show()
pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
"""


@pytest.fixture(scope="module", autouse=True)
def index(jail: None) -> None:
    """An index that answers, and kernels that are forked from a warm Python."""
    cloche.warm_up()
    with cloche.Sandbox() as box:
        try:
            box.packages.install("pytz==2024.1")
        except cloche.ClocheError as problem:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no package index: {problem}")


@pytest.fixture
def box() -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(memory="1G", disk="1G", timeout=60) as box:
        yield box


def version(box: cloche.Sandbox, module: str) -> str | None:
    text = box.run(f"import {module}; {module}.__version__").text
    return None if text is None else text.strip("'")


def test_a_sandbox_can_begin_with_another_version_of_a_loaded_library(index):
    with cloche.Sandbox(packages=[f"numpy=={NUMPY}"]) as box:
        assert version(box, "numpy") == NUMPY
        assert box.run("numpy.ones((9, 9)) @ numpy.ones(9)").text.startswith("array([9., 9.")
        assert box.run("a = numpy.arange(3)").error is None
        assert box.branch().run("a.sum()").text in ("3", "np.int64(3)")
        program = box.run_program("import numpy; print(numpy.__version__)")
        assert program.stdout == f"{NUMPY}\n"


def test_a_live_session_needs_a_restart_and_restoring_undoes_the_install(box):
    usual = version(box, "pandas")
    assert usual != PANDAS
    before = box.checkpoint()
    done = box.packages.install(f"pandas=={PANDAS}")
    assert "pandas" in done.restart
    assert version(box, "pandas") == usual
    box.restart()
    assert version(box, "pandas") == PANDAS
    shown = box.run(CHART_AND_TABLE)
    assert shown.error is None
    chart, table = shown.results
    assert (chart.chart["title"], bool(chart.png)) == ("Lines", True)
    assert table.html is not None
    assert "'x'" in str(table.table)
    again = box.checkpoint()
    box.restore(before)
    assert version(box, "pandas") == usual
    box.restart()
    assert version(box, "pandas") == usual
    box.restore(again)
    assert version(box, "pandas") == PANDAS


def test_nothing_needs_a_restart_before_a_kernel_has_started(box):
    assert box.packages.install(f"pandas=={PANDAS}").restart == ()
    assert version(box, "pandas") == PANDAS


def test_a_package_that_a_cell_has_imported_earlier_needs_a_restart(box):
    assert box.packages.install("tabulate==0.8.10").restart == ()
    box.run("x = 1")
    assert box.packages.install("tabulate==0.9.0").restart == ()  # nobody has imported it
    assert version(box, "tabulate") == "0.9.0"
    branch = box.branch()
    assert box.packages.install("tabulate==0.8.10").restart == ("tabulate",)
    box.restart("python")
    box.run("1")
    assert branch.run("tabulate.__version__").text == "'0.9.0'"
    assert box.packages.install("tabulate==0.8.9").restart == ("tabulate",)  # the branch has imported it
    box.restart(branch)
    assert box.packages.install("tabulate==0.8.10").restart == ()
    assert version(box, "tabulate") == "0.8.10"


def test_each_part_of_a_namespace_counts_for_itself(box):
    box.packages.install("jaraco.context==5.3.0")
    assert box.run("import jaraco.context").error is None
    assert box.packages.install("jaraco.functools==4.0.1").restart == ()
    assert box.packages.install("jaraco.context==6.0.1").restart == ("jaraco-context",)


def test_a_fresh_kernel_is_asked_for_what_it_has_loaded_itself(box):
    box.packages.install(f"pandas=={PANDAS}")
    box.run("1")  # a fresh kernel, which has loaded neither of the two
    assert box.packages.install(f"numpy=={NUMPY}").restart == ()
    assert version(box, "numpy") == NUMPY
    assert box.packages.install("numpy==2.2.5").restart == ("numpy",)
