"""Programs choose their threads by the CPUs and the memory of their sandbox, not by those of the host."""

import os
import threading
from collections.abc import Iterator

import pytest

import cloche
from cloche import languages
from cloche.walls.jail import shown_limits

pytestmark = [
    pytest.mark.usefixtures("jail"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a host with one CPU has nothing to hide"),
]

THREADS = """
import json, numpy, scipy.linalg, sklearn.ensemble, threadpoolctl
print(json.dumps(sorted((each["prefix"], each["num_threads"]) for each in threadpoolctl.threadpool_info())))
"""
BLAS_THREADS = """
import numpy, threadpoolctl
print({each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"})
"""
PARALLEL = """
import os, numpy
from sklearn.ensemble import HistGradientBoostingRegressor
def compute():
    square = numpy.ones((400, 400)) @ numpy.ones((400, 400))
    rows = numpy.random.default_rng(0).random((2000, 4))
    HistGradientBoostingRegressor(max_iter=5).fit(rows, rows[:, 0])
    return float(square[0, 0]), len(os.listdir("/proc/self/task")) > 1
"""


@pytest.fixture(scope="module")
def narrow(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(cpu=0.9, memory="1G", timeout=120) as box:
        yield box


@pytest.fixture(scope="module")
def wide(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(cpu=2, memory="1G", timeout=120, undo=True) as box:
        yield box


COUNTS = {
    "python": "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))",
    "bash": "nproc; getconf _NPROCESSORS_ONLN",
    "javascript": "console.log(os.availableParallelism(), os.availableParallelism())".replace("os", "require('os')"),
    "ruby": "require 'etc'; puts Etc.nprocessors, Etc.nprocessors",
    "r": "library(parallel); cat(detectCores(), parallel::detectCores())",
    "rust": 'fn main() { let n = std::thread::available_parallelism().unwrap(); println!("{n} {n}"); }',
    "go": 'package main\nimport ("fmt"; "runtime")\n'
    "func main() { fmt.Println(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }",
    "cpp": "#include <thread>\n#include <cstdio>\nint main() { auto n = std::thread::hardware_concurrency(); "
    'printf("%u %u", n, n); }',
    "java": 'int n = Runtime.getRuntime().availableProcessors(); System.out.println(n + " " + n);',
}


@pytest.mark.parametrize("language", COUNTS)
def test_every_language_counts_the_cpus_of_the_sandbox(narrow, wide, language):
    if languages.tools(languages.find(language)) is None:
        pytest.skip(f"{language} is not installed")
    for box, cpus in ((narrow, "1"), (wide, "2")):
        result = box.run_program(COUNTS[language], language=language)

        assert result.error is None, result.stderr
        assert result.stdout.split() == [cpus, cpus]


def test_libraries_compute_with_the_cpus_of_the_sandbox(narrow, wide):
    for box, cpus in ((narrow, 1), (wide, 2)):
        for result in (box.run(THREADS), box.run_program(THREADS)):
            assert result.stdout == (
                f'[["libgomp", {cpus}], ["libscipy_openblas", {cpus}], ["libscipy_openblas", {cpus}]]\n'
            )


def test_duckdb_polars_and_arrow_follow_the_limits(narrow):
    code = (
        "import duckdb, polars, pandas, pyarrow\n"
        "print(duckdb.sql(\"select current_setting('threads'), current_setting('memory_limit')\").fetchall())\n"
        "print(polars.thread_pool_size(), pyarrow.cpu_count())"
    )

    result = narrow.run(code)

    assert result.stdout == "[(1, '819.1 MiB')]\n1 1\n"


def test_joblib_uses_all_cpus_without_a_warning(wide):
    code = "from joblib import Parallel, delayed\nprint(Parallel(n_jobs=-1)(delayed(abs)(-n) for n in range(3)))"

    result = wide.run_program(code)

    assert (result.stdout, result.stderr) == ("[0, 1, 2]\n", "")


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_the_variables_of_libraries_are_obeyed(wide, name):
    env = {name: "1"}
    results = [
        wide.run(BLAS_THREADS, env=env),
        wide.run_program(BLAS_THREADS, env=env),
        wide.commands.run(["python3", "-c", BLAS_THREADS], env=env),
        cloche.run(BLAS_THREADS, cpu=2, env=env),
    ]

    assert [result.stdout for result in results] == ["{1}\n"] * 4
    assert wide.run(BLAS_THREADS).stdout == "{2}\n"


def test_a_sandboxs_variable_goes_before_the_one_that_a_language_sets():
    if languages.tools(languages.find("go")) is None:
        pytest.skip("Go is not installed")
    with cloche.Sandbox(env={"GOMAXPROCS": "3"}) as box:
        assert box.run_program(COUNTS["go"], language="go").stdout == "1 3\n"


def test_a_copy_of_a_kernel_that_has_threads_computes_with_threads(wide):
    wide.run(PARALLEL + "compute()")
    wide.run("x = 1")
    wide.run("x = compute()")
    wide.undo()

    result = wide.run("x, compute()")

    assert result.error is None
    assert result.text == "(1, (400.0, True))"


def test_a_program_that_sets_its_affinity_reads_it_back(narrow):
    last = max(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, [{last}])\nprint(os.sched_getaffinity(0))"

    assert narrow.run_program(code).stdout == f"{{{last}}}\n"


def test_wrong_arguments_get_the_kernels_own_errors(narrow):
    code = (
        "import ctypes, errno, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "number = {'x86_64': 204, 'aarch64': 123}[os.uname().machine]\n"
        "for pid, size, address in ((0, 128, 8), (0, 1, 8), (99999, 128, 8), (-1, 128, 8), (0, 128, -1)):\n"
        "    arguments = [ctypes.c_long(each) for each in (number, pid, size, address)]\n"
        "    assert libc.syscall(*arguments) == -1\n"
        "    print(errno.errorcode[ctypes.get_errno()], end=' ')"
    )

    assert narrow.run_program(code).stdout == "EFAULT EINVAL ESRCH ESRCH EFAULT "


def test_a_process_that_ends_while_it_is_asked_about_leaves_no_caller_waiting():
    """A call that nobody answers waits for ever.  Some of these processes end after their file was opened."""
    for _ in range(200):
        child = os.fork()
        if child == 0:
            os._exit(0)
        reaping = threading.Thread(target=os.waitpid, args=(child, 0))
        reaping.start()
        while os.path.exists(f"/proc/{child}"):
            assert shown_limits.answer_affinity(os.getpid(), [child, 1024, 0], cpus=1) == 0
        reaping.join()
