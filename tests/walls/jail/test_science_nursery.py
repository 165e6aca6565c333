"""Programs that import scikit-learn, SciPy, seaborn or statsmodels come from a nursery that has imported them."""

import os
from textwrap import dedent

import pytest
from tests.agent.test_saboteurs import PRELUDE, SABOTEURS
from tests.waiting import eventually

import cloche

pytestmark = pytest.mark.usefixtures("jail")

NAMES = ("sklearn.ensemble", "scipy.stats", "seaborn", "statsmodels.api")
LOADED = f"import sys\nprint([name in sys.modules for name in {NAMES}])"


@pytest.fixture(scope="module")
def warm(jail: None) -> None:
    """Wait until the nursery has finished its imports; until then, others serve its programs."""
    ready = f"{[True] * len(NAMES)}\n"
    eventually(lambda: cloche.run(f"# sklearn\n{LOADED}", timeout=60).stdout == ready, 120, "the science nursery")


def test_other_programs_do_not_carry_these_libraries(warm):
    parts = ("sk' 'learn", "sci' 'py", "sea' 'born", "stats' 'models")  # a program that names one comes from there
    listing = f"import sys\nprint([name in sys.modules for name in ({', '.join(repr(part) for part in parts)})])"
    listing = listing.replace('"', "'")

    assert cloche.run(f"import pandas\n{listing}").stdout == "[False, False, False, False]\n"
    assert cloche.run(listing).stdout == "[False, False, False, False]\n"


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        *(("xgboost", [True, True]), ("skimage", [True, True]), ("nltk", [True, True])),
        *(("xarray", [True, False]), ("cv2", [True, False]), ("numba", [True, False]), ("qrcode", [False, False])),
    ],
)
def test_a_program_comes_from_the_nursery_that_has_what_its_library_imports(warm, name, loaded):
    cloche.warm_up()
    listing = "import sys\nprint([name in sys.modules for name in ('pan' 'das', 'sk' 'learn')])"

    assert cloche.run(f"# {name}\n{listing}").stdout == f"{loaded}\n"


def test_programs_draw_different_random_numbers(warm):
    code = (
        "import scipy.stats, sklearn.utils\n"
        "print(scipy.stats.norm.rvs(), sklearn.utils.check_random_state(None).rand())"
    )

    first, second = (cloche.run(code).stdout.split() for _ in range(2))

    assert set(first).isdisjoint(second)


def test_libraries_that_are_loaded_already_follow_the_cpus(warm):
    code = (
        "import scipy.linalg, sklearn.ensemble, threadpoolctl\n"
        "print({each['num_threads'] for each in threadpoolctl.threadpool_info()})"
    )

    assert cloche.run(code, cpu=1).stdout == "{1}\n"
    assert cloche.run(code, cpu=2).stdout == f"{{{min(2, len(os.sched_getaffinity(0)))}}}\n"


def test_they_compute_in_processes_and_share_no_key(warm):
    code = (
        "import multiprocessing, os, joblib, sklearn.ensemble, sys\n"
        "print(joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(2)).count(os.getpid()))\n"
        "print('polars' in sys.modules)\n"
        "print(multiprocessing.current_process().authkey.hex())"
    )

    first, second = (cloche.run(code, cpu=2).stdout.split() for _ in range(2))

    assert first[:2] == second[:2] == ["0", "False"]
    assert first[2] != second[2]


def test_their_processes_are_waited_for_and_tidied_up_at_the_exit(warm):
    code = (
        "import atexit, joblib, multiprocessing, os, sklearn\n"
        "joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-n) for n in range(2))\n"
        "def child():\n"
        "    os.read(end, 1)\n"  # returns when the main program has reached its own end
        "    sum(range(10**7))\n"  # long enough for a program that does not wait to be gone
        "    os.write(1, b'child')\n"
        "end, start = os.pipe()\n"
        "multiprocessing.Process(target=child).start()\n"
        "atexit.register(os.write, start, b'.')\n"
    )

    result = cloche.run(code, cpu=2)

    assert (result.stdout, result.stderr) == ("child", "")


def test_a_saboteur_does_not_change_how_their_programs_end(warm):
    result = cloche.run(f"# sklearn\n{PRELUDE}{dedent(SABOTEURS['every class'])}\nraise ValueError('failed')")

    assert (result.exit_code, result.ok) == (1, False)
