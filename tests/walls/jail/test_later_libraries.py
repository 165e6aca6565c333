"""Sessions take scikit-learn, SciPy, seaborn and statsmodels from the shelf of their nursery."""

import os
from textwrap import dedent

import pytest
from tests.agent.test_saboteurs import FAILURES, PRELUDE, SABOTEURS
from tests.waiting import eventually

import cloche
from cloche.walls.jail import huge_pages
from cloche.walls.jail.nursery_client import SCIENCE_LIBRARIES

pytestmark = pytest.mark.usefixtures("jail")

NAMES = ("sklearn.ensemble", "scipy.stats", "seaborn", "statsmodels.api", "statsmodels.formula.api")
LOADED = f"import sys\nprint([name in sys.modules for name in {NAMES}])"
ALL, NONE = f"{[True] * len(NAMES)}\n", f"{[False] * len(NAMES)}\n"


@pytest.fixture(scope="module")
def shelf(jail: None) -> None:
    """Wait until the nursery has finished its imports; until then, sessions import some of the libraries themselves."""
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not huge_pages.are_available(proc):
            pytest.skip("this kernel makes no huge pages of memory in use (Linux 6.1)")
    finally:
        os.close(proc)

    def is_full() -> bool:
        with cloche.Sandbox() as box:
            return box.run(f"import joblib\n{LOADED}").stdout == ALL

    eventually(is_full, 120, "the libraries of sessions")


@pytest.fixture
def box(shelf: None):
    with cloche.Sandbox(cpu=2) as box:
        yield box


@pytest.mark.parametrize("library", ["scipy", "sklearn", "seaborn", "statsmodels"])
def test_the_first_import_brings_the_libraries(box, library):
    assert box.run(LOADED).stdout == NONE
    assert box.run(f"import importlib.util\nimportlib.util.find_spec('{library}').origin[-11:]").text == "'__init__.py'"
    assert box.run(LOADED).stdout == NONE  # to look for a library is not to import it
    assert box.run(f"import {library}\n{LOADED}").stdout == ALL


def test_every_library_is_a_module_like_any_other(box):
    tops = sorted({name.partition(".")[0] for name in SCIENCE_LIBRARIES})
    code = (
        f"import importlib, inspect, sys\nfor name in {tops}:\n"
        "    module = importlib.import_module(name)\n"
        "    assert module is sys.modules[name] and module.__spec__.loader is module.__loader__, name\n"
        "    assert 'ShelfLoader' not in repr(module.__spec__), name\n"
        "    assert inspect.getsource(module)\n"
        "importlib.reload(sys.modules['joblib'])\n"
        "print([finder for finder in sys.meta_path if 'Shelf' in repr(finder)])"
    )

    result = box.run(code)

    assert (result.stdout, result.error) == ("[]\n", None)


def test_a_package_of_the_sandbox_goes_before_the_shelf(box):
    box.files.write("joblib.py", "mine = 1")

    result = box.run(f"import joblib\nprint(joblib.mine)\n{LOADED}\nimport sklearn\nprint(sklearn.__name__)")

    assert result.stdout == f"1\n{NONE}"  # scikit-learn cannot work with this one
    assert result.error is not None


def test_warnings_are_filtered_as_after_an_import(box):
    filters = "import warnings\nprint([each for each in warnings.filters if 'statsmodels' in str(each)])"

    assert box.run(filters).stdout == "[]\n"
    shelved = box.run(f"import statsmodels.api\n{filters}").stdout
    assert shelved == box.run_program(f"import statsmodels.api\n{filters}").stdout != "[]\n"


def test_they_compute_with_processes_and_threads(box):
    code = (
        "import os, joblib, threadpoolctl, sklearn.ensemble\n"
        "print(joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(2)).count(os.getpid()))\n"
        "print({each['num_threads'] for each in threadpoolctl.threadpool_info()})\n"
        "forest = sklearn.ensemble.RandomForestClassifier(n_jobs=2, n_estimators=4)\n"
        "print(forest.fit([[0], [1]] * 9, [0, 1] * 9).predict([[1]]))"
    )

    result = box.run(code)

    assert result.stdout == f"0\n{{{min(2, len(os.sched_getaffinity(0)))}}}\n[1]\n", result.stderr


def test_statsmodels_knows_the_data_of_polars(box):
    code = (
        "import sys, statsmodels.tools.data\nprint('polars' in sys.modules)\n"
        "import polars\nprint(isinstance(polars.Series([1]), statsmodels.tools.data._POLARS_TYPES))\n"
        "print(isinstance([1], statsmodels.tools.data._POLARS_TYPES))"
    )

    assert box.run(code).stdout == "False\nTrue\nFalse\n"


def test_programs_do_without_the_shelf(box):
    result = box.run_program(
        f"import sys\nprint([finder for finder in sys.meta_path if 'Shelf' in repr(finder)])\n{LOADED}\n"
        "import sklearn\nprint('seaborn' in sys.modules)"
    )

    assert result.stdout == f"[]\n{NONE}False\n"


def test_sessions_share_no_key_and_no_random_numbers(shelf):
    code = (
        "import multiprocessing, random, numpy, scipy.stats\n"
        "print(multiprocessing.current_process().authkey.hex(), random.random(), numpy.random.rand(),"
        " scipy.stats.norm.rvs())"
    )

    def drawn() -> set[str]:
        with cloche.Sandbox() as box:
            return set(box.run(code).stdout.split())

    first, second = drawn(), drawn()
    assert len(first) == len(second) == 4
    assert first.isdisjoint(second)


@pytest.mark.parametrize("saboteur", ["trace", "profile", "every class"])
def test_nothing_that_the_shelf_has_imported_runs_at_the_end_of_a_program(box, saboteur):
    result = box.run_program(f"{PRELUDE}{dedent(SABOTEURS[saboteur])}\n{FAILURES['exit']}\n")

    assert (result.exit_code, result.stderr) == (3, "")


def test_a_program_beside_the_shelf_waits_for_its_processes(box):
    code = (
        "import multiprocessing, os\n"
        "def child():\n"
        "    sum(range(10**7))\n"  # long enough for a program that does not wait to be gone
        "    os.write(1, b'child')\n"
        "multiprocessing.Process(target=child).start()\n"
    )

    assert box.run_program(code).stdout == "child"
