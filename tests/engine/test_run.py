"""`cloche.run`: every argument, every kind of error, and what is said of bad input."""

# ruff: noqa: E501  (programs are easier to compare when each is one line)

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest

import cloche
from cloche.model.kinds import KINDS

pytestmark = pytest.mark.usefixtures("jail")


def error_of(result: cloche.Result, kind: str) -> cloche.Error:
    """The error, which must be of this kind and say what a person needs."""
    assert result.error is not None, result
    assert result.error.kind == kind, result
    assert result.error.kind in KINDS
    assert result.error.message
    assert result.error.hint
    assert not result.ok
    return result.error


# --- what comes back


def test_a_result_tells_what_happened() -> None:
    result = cloche.run("import sys; print(6 * 7); print('hm', file=sys.stderr)")
    assert (result.stdout, result.stderr, result.exit_code) == ("42\n", "hm\n", 0)
    assert (result.error, result.truncated, result.ok, result.wall) == (None, False, True, "jail")


def test_time_and_memory_are_measured() -> None:
    result = cloche.run("x = bytearray(60 << 20)\nfor n in range(600_000): n * n")
    assert result.cpu_time > 0
    assert result.duration > 0
    assert 60 << 20 <= result.memory_peak < 300 << 20


def test_deleted_files_are_no_memory() -> None:
    write = "import os\nwith open('/tmp/x', 'wb') as file:\n    for _ in range(150): file.write(bytes(1 << 20))\n"
    for _ in range(3):  # in a sandbox that is made now, and in one of the pool
        result = cloche.run(f"{write}os.remove('/tmp/x')\nheap = b'x' * (20 << 20)")
        assert 20 << 20 <= result.memory_peak < 80 << 20
    # The processes of a program count together, where a control group counts them.
    forks = """
import os
ready, go = os.pipe(), os.pipe()
for _ in range(3):
    if os.fork() == 0:
        heap = b"x" * (40 << 20)
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os._exit(0)
for _ in range(3):
    os.read(ready[0], 1)
os.write(go[1], b"...")
for _ in range(3):
    os.wait()
"""
    assert cloche.run(forks).memory_peak >= (120 if os.geteuid() == 0 else 40) << 20


def test_duration_includes_waiting_and_cpu_time_does_not() -> None:
    result = cloche.run("import time; time.sleep(0.3)")
    assert 0.3 <= result.duration < 3
    assert result.cpu_time < 0.25


def test_output_that_is_not_text_is_there_as_bytes() -> None:
    result = cloche.run("import sys; sys.stdout.buffer.write(b'\\xff\\x00a'); sys.stderr.buffer.write(b'\\xfe')")
    assert (result.stdout_bytes, result.stderr_bytes) == (b"\xff\x00a", b"\xfe")
    assert (result.stdout, result.stderr) == ("\ufffd\x00a", "\ufffd")


def test_a_fresh_sandbox_each_time() -> None:
    first = cloche.run("open('/sandbox/here', 'w').close(); open('/tmp/here', 'w').close()")
    second = cloche.run("import os; print(os.path.exists('/sandbox/here'), os.path.exists('/tmp/here'))")
    assert first.ok
    assert second.stdout == "False False\n"


async def test_the_asynchronous_run_is_the_same() -> None:
    result = await cloche.async_run(
        "import os, sys; print(sys.argv[1], input(), os.environ['A'], open('f').read())",
        args=["x"], stdin="y\n", env={"A": "z"}, files={"f": "w"},
    )  # fmt: skip
    assert result.stdout == "x y z w\n"


# --- the arguments


def test_arguments_arrive_as_they_are() -> None:
    args = ["", " ", "a b", "ü", "-x", "--", "'\"$(echo)", "\n", "\udcff"]
    assert cloche.run("import sys; print(ascii(sys.argv[1:]))", args=args).stdout == f"{args!a}\n"
    assert cloche.run('printf "%s|" "$@"', language="bash", args=args).stdout_bytes == b"".join(
        a.encode("utf-8", "surrogateescape") + b"|" for a in args
    )


def test_environment_variables_arrive_beside_ours() -> None:
    result = cloche.run("import os; print(os.environ['A'], os.environ['PATH'] != '')", env={"A": "grüße\n="})
    assert result.stdout == "grüße\n= True\n"


def test_standard_input_is_a_text_or_bytes_or_nothing() -> None:
    code = "import sys; print(sys.stdin.buffer.read())"
    assert cloche.run(code).stdout == "b''\n"
    assert cloche.run(code, stdin="").stdout == "b''\n"
    assert cloche.run(code, stdin="ü").stdout == f"{'ü'.encode()!r}\n"
    assert cloche.run(code, stdin=b"\xff\0").stdout == "b'\\xff\\x00'\n"
    assert cloche.run(code, stdin=bytearray(b"a")).stdout == "b'a'\n"  # type: ignore[arg-type]
    assert cloche.run(code, stdin=memoryview(b"a")).stdout == "b'a'\n"  # type: ignore[arg-type]


def test_ten_megabytes_of_input_arrive() -> None:
    data = bytes(range(256)) * 40_000
    result = cloche.run("import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=data)
    import hashlib

    assert result.stdout == hashlib.sha256(data).hexdigest() + "\n"


def test_input_that_is_never_read_does_not_hold_anybody_up() -> None:
    result = cloche.run("print('done')", stdin=bytes(50 << 20))
    assert (result.stdout, result.exit_code) == ("done\n", 0)


def test_input_and_output_flow_at_the_same_time() -> None:
    data = b"0123456789abcde\n" * (8 << 16)
    result = cloche.run("cat", language="bash", stdin=data, output="20M")
    assert result.stdout_bytes == data


def test_files_are_there_before_the_program() -> None:
    files: dict[str, str | bytes] = {
        "data/a.csv": b"1,2\n",
        "b.txt": "ü",
        "/sandbox/output/c": b"",
        "data/d/e/f": b"\xff",
    }
    code = "for n in ('data/a.csv', 'b.txt', 'output/c', 'data/d/e/f'): print(open(n, 'rb').read())"
    assert cloche.run(code, files=files).stdout == "".join(
        f"{v if isinstance(v, bytes) else v.encode()!r}\n" for v in files.values()
    )


def test_bash_runs_too() -> None:
    result = cloche.run("echo out; echo err >&2; exit 3", language="bash")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert error_of(result, "exit").name is None


@pytest.mark.parametrize("name", ["python", "Python", " python3 ", "py"])
def test_a_language_has_many_names(name: str) -> None:
    assert cloche.run("print(1)", language=name).stdout == "1\n"


@pytest.mark.parametrize("size", [0, 1, 32 << 10, (32 << 10) + 1, 3 << 20])
@pytest.mark.parametrize("letter", ["x", "ü", "世", "🎉", "\x01"])
def test_a_program_of_any_length_runs(size: int, letter: str) -> None:
    result = cloche.run(f"x = '{letter * size}'\nprint(len(x))")
    assert result.stdout == f"{size}\n"


def test_a_folder_of_the_host_is_mounted_read_only(tmp_path: Any) -> None:
    (tmp_path / "in.txt").write_text("from the host")
    tmp_path.chmod(0o755)
    code = "print(open('/sandbox/data/in/in.txt').read())\nopen('/sandbox/data/in/new', 'w')"
    result = cloche.run(code, mounts={str(tmp_path): "/sandbox/data/in"})
    assert result.stdout == "from the host\n"
    assert error_of(result, "runtime").name == "OSError"
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


# --- the kinds of errors


def test_an_exception_is_a_runtime_error_with_its_traceback() -> None:
    error = error_of(cloche.run("def f():\n    return {}['k']\nf()"), "runtime")
    assert (error.name, error.message) == ("KeyError", "'k'")
    assert error.traceback is not None
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert 'File "/sandbox/code/main.py", line 2, in f' in error.traceback


def test_what_python_cannot_read_is_a_diagnostic() -> None:
    (said,) = cloche.run("def f():\n    if x\n        pass\n").diagnostics
    assert str(said) == "main.py:2:0: error: expected ':'"
    (said,) = cloche.run(files={"main.py": "import lib.sums", "lib/sums.py": "x = 1\ny = = 2\n"}).diagnostics
    assert str(said) == "lib/sums.py:2:0: error: invalid syntax"
    assert cloche.run("eval('1 +')").diagnostics == cloche.run("1 / 0").diagnostics == ()


def test_a_program_that_cannot_be_compiled_is_a_syntax_error() -> None:
    error = error_of(cloche.run("print(1)\nx = ("), "syntax")
    assert (error.name, error.message) == ("SyntaxError", "'(' was never closed")
    assert error.traceback is not None
    assert "line 2" in error.traceback


def test_an_exit_code_is_an_exit() -> None:
    result = cloche.run("raise SystemExit(3)")
    assert result.exit_code == 3
    assert "3" in error_of(result, "exit").message


def test_a_program_that_takes_too_long_is_stopped() -> None:
    begin = time.monotonic()
    result = cloche.run("print('begun')\nwhile True: pass", timeout=1)
    assert 0.9 < time.monotonic() - begin < 15
    assert "1 second" in error_of(result, "timeout").message
    assert (result.exit_code, result.stdout) == (124, "begun\n")


def test_a_program_that_sleeps_too_long_is_stopped_too() -> None:
    code = "import signal, time\nfor s in signal.valid_signals():\n try: signal.signal(s, signal.SIG_IGN)\n except OSError: pass\ntime.sleep(99)"
    error_of(cloche.run(code, timeout=0.3), "timeout")


def test_a_program_that_needs_too_much_memory_is_stopped() -> None:
    result = cloche.run("x = []\nwhile True: x.append(bytearray(10 << 20))", memory="100M")
    assert "100 MB" in error_of(result, "memory").message


def test_a_child_that_needs_too_much_memory_is_told_when_the_program_fails_of_it() -> None:
    code = "import subprocess\nsubprocess.run(['python3', '-c', 'x = bytearray(300 << 20)'], check=True)"
    error_of(cloche.run(code, memory="100M"), "memory")


def test_a_program_that_prints_too_much_is_stopped_and_cut() -> None:
    result = cloche.run("while True: print('x' * 999)", output="1M")
    assert "1 MB" in error_of(result, "output").message
    assert result.truncated
    assert len(result.stdout) + len(result.stderr) == 1 << 20


def test_the_output_limit_counts_both_streams_and_can_be_met_exactly() -> None:
    code = "import sys; print('o' * 499); print('e' * 499, file=sys.stderr)"
    exact = cloche.run(code, output=1000)
    assert (exact.ok, exact.truncated) == (True, False)
    less = cloche.run(code, output=999)
    assert less.truncated
    assert len(less.stdout) + len(less.stderr) == 999


def test_no_output_may_be_wanted() -> None:
    assert cloche.run("pass", output=0).ok
    assert cloche.run("print(1)", output=0).truncated


def test_a_full_disk_is_told() -> None:
    result = cloche.run("f = open('big', 'wb')\nfor _ in range(99): f.write(bytes(1 << 20))", disk="20M")
    error = error_of(result, "disk")
    assert error.name == "OSError"
    assert "20 MB" in error.message


def test_too_many_files_are_told() -> None:
    error_of(cloche.run("for n in range(100_000): open(f'temp/{n}', 'w').close()", disk="4M"), "disk")


def test_too_many_processes_are_told() -> None:
    code = "import os, time\nfor _ in range(50):\n    if os.fork() == 0: time.sleep(30); os._exit(0)"
    assert "10 processes" in error_of(cloche.run(code, processes=10), "processes").message


def test_too_many_threads_are_told() -> None:
    code = "import threading\ne = threading.Event()\nfor _ in range(50): threading.Thread(target=e.wait, daemon=True).start()"
    error_of(cloche.run(code, processes=10), "processes")


def test_a_program_that_is_killed_is_told() -> None:
    result = cloche.run("import os; os.kill(os.getpid(), 15)")
    assert result.exit_code == 128 + 15
    assert "SIGTERM" in error_of(result, "killed").message


def test_a_crash_of_native_code_is_told() -> None:
    result = cloche.run("import ctypes; ctypes.string_at(0)")
    assert result.exit_code == 128 + 11
    assert "SIGSEGV" in error_of(result, "killed").message


def test_a_network_is_missed_with_a_hint() -> None:
    error = error_of(
        cloche.run("import urllib.request; urllib.request.urlopen('http://example.com', timeout=5)"), "runtime"
    )
    assert "network" in error.hint


def test_a_missing_library_is_told_with_a_hint() -> None:
    error = error_of(cloche.run("import no_such_library"), "runtime")
    assert error.name == "ModuleNotFoundError"
    assert "installed" in error.hint


def test_a_missing_input_is_told_with_a_hint() -> None:
    assert "stdin=" in error_of(cloche.run("input()"), "runtime").hint


# --- limits at work


def test_the_share_of_a_cpu_is_kept() -> None:
    result = cloche.run("import time; end = time.time() + 0.8\nwhile time.time() < end: pass", cpu=0.3)
    assert result.ok
    assert result.cpu_time < 0.8 * 0.75


def test_output_printed_before_the_time_was_up_is_kept() -> None:
    result = cloche.run("import time; print('x' * 200_000)\ntime.sleep(30)", timeout=1)
    assert len(result.stdout) == 200_001


def test_children_left_behind_do_not_hold_up_the_result() -> None:
    begin = time.monotonic()
    result = cloche.run("import subprocess; subprocess.Popen(['sleep', '30']); print('done')")
    assert (result.stdout, result.ok) == ("done\n", True)
    assert time.monotonic() - begin < 15


# --- bad input

BAD: list[tuple[dict[str, Any], str]] = [
    ({"code": None}, "code"),
    ({"code": b"print(1)"}, "code"),
    ({"code": "x = '\ud800'"}, "code"),
    ({"language": "cobol"}, "cobol"),
    ({"language": 7}, "7"),
    ({"language": ""}, "''"),
    ({"args": "abc"}, "args"),
    ({"args": 5}, "args"),
    ({"args": None}, "args"),
    ({"args": [1]}, "args"),
    ({"args": ["a\0b"]}, "NUL"),
    ({"args": ["\ud800"]}, "args"),
    ({"args": ["x" * (2 << 20)]}, "too long"),
    ({"args": ["x"] * 600_000}, "too long"),
    ({"args": ["x" * 200_000], "language": "bash"}, "too long"),
    ({"env": ["A=1"]}, "env"),
    ({"env": {"A": 1}}, "'A'"),
    ({"env": {1: "A"}}, "1"),
    ({"env": {"": "x"}}, "''"),
    ({"env": {"A=B": "x"}}, "'A=B'"),
    ({"env": {"A": "\0"}}, "'A'"),
    ({"env": {"A\0": ""}}, "A"),
    ({"env": {"A": "x" * (2 << 20)}}, "too long"),
    ({"stdin": 5}, "stdin"),
    ({"stdin": ["a"]}, "stdin"),
    ({"stdin": "\ud800"}, "stdin"),
    ({"files": ["a"]}, "files"),
    ({"files": {"a": 5}}, "a"),
    ({"files": {"a": None}}, "a"),
    ({"files": {5: b""}}, "path"),
    ({"files": {"": b""}}, "path"),
    ({"files": {"a\0b": b""}}, "NUL"),
    ({"files": {"x" * 5000: b""}}, "4096"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"timeout": float("inf")}, "timeout"),
    ({"timeout": "30"}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"memory": "lots"}, "memory"),
    ({"memory": ""}, "memory"),
    ({"memory": "512Q"}, "memory"),
    ({"memory": 1}, "memory"),
    ({"memory": -5}, "memory"),
    ({"memory": 1.5}, "memory"),
    ({"memory": None}, "memory"),
    ({"memory": "nan"}, "memory"),
    ({"memory": "infG"}, "memory"),
    ({"cpu": 0}, "cpu"),
    ({"cpu": "1"}, "cpu"),
    ({"cpu": float("inf")}, "cpu"),
    ({"disk": 0}, "disk"),
    ({"disk": "-1G"}, "disk"),
    ({"processes": 0}, "processes"),
    ({"processes": 1.5}, "processes"),
    ({"processes": "64"}, "processes"),
    ({"processes": float("nan")}, "processes"),
    ({"output": -1}, "output"),
    ({"output": "1M1"}, "output"),
    ({"mounts": {"/tmp": "/etc"}}, "/etc"),
    ({"mounts": {"/tmp": "/sandbox"}}, "/sandbox"),
    ({"mounts": {"/tmp": "/sandbox/../etc"}}, "/sandbox/../etc"),
    ({"mounts": {"/tmp": "sandbox/x"}}, "sandbox/x"),
    ({"mounts": {"/no/such/folder": "/sandbox/data/x"}}, "/no/such/folder"),
    ({"mounts": {"/tmp": 5}}, "/tmp"),
    ({"mounts": ["/tmp"]}, "mounts"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD, ids=[f"{i}-{next(iter(a))}" for i, (a, _) in enumerate(BAD)])
def test_bad_input_is_refused_with_its_name(arguments: dict[str, Any], word: str) -> None:
    arguments = {"code": "print(1)", **arguments}
    with pytest.raises(cloche.InvalidRun, match=re.escape(word)) as caught:
        cloche.run(**arguments)
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("arguments", "word"), BAD, ids=[f"{i}-{next(iter(a))}" for i, (a, _) in enumerate(BAD)])
async def test_bad_input_is_refused_asynchronously_as_well(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(cloche.InvalidRun, match=re.escape(word)):
        await cloche.async_run(**{"code": "print(1)", **arguments})


@pytest.mark.parametrize("folder", ["/", "/proc", "/etc", "/dev", "/proc/1"])
def test_folders_of_the_system_are_refused(folder: str) -> None:
    with pytest.raises(cloche.Refused, match=folder):
        cloche.run("", mounts={folder: "/sandbox/data/x"})


@pytest.mark.parametrize(
    ("text", "count"),
    [("1K", 1024), ("1.5G", 3 << 29), ("64 KiB", 65536), ("10mb", 10 << 20), (" 5 ", 5), (7, 7), ("1T", 1 << 40)],
)
def test_sizes_are_written_as_people_do(text: int | str, count: int) -> None:
    from cloche.model.limits import size

    assert size("disk", text) == count


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"memory": 5}, "memory must be between 16M and 16T bytes, not 5"),
        ({"memory": 10**400}, "not more"),
        ({"processes": -(10**400)}, "processes must be between 1 and 1048576 processes, not less"),
        ({"timeout": 0.0}, "timeout must be between 0.001 and 604800 seconds, not 0"),
    ],
)
def test_what_is_out_of_range_is_told_in_numbers_that_people_read(limits: dict[str, Any], told: str) -> None:
    with pytest.raises(cloche.InvalidRun, match=told):
        cloche.run("", **limits)


def test_a_file_outside_the_sandbox_cannot_be_given() -> None:
    with pytest.raises(cloche.FileProblem):
        cloche.run("", files={"/etc/passwd": b"x"})
    with pytest.raises(cloche.FileProblem):
        cloche.run("", files={"../../usr/x": b"x"})


# --- libraries

LIBRARIES = {
    "numpy": "import numpy as np; print(int(np.arange(10).reshape(2, 5).sum()), (np.eye(300) @ np.eye(300)).trace())",
    "pandas": "import pandas as pd; print(pd.DataFrame({'a': [1, 2, 3]}).describe().loc['mean', 'a'])",
    "scipy": "from scipy import optimize, stats; print(round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6))",
    "sklearn": "from sklearn.linear_model import LinearRegression as L; print(round(L().fit([[0], [1]], [0, 2]).coef_[0], 6))",
    "seaborn": "import seaborn as sns; print(sns.barplot(x=['a', 'b'], y=[1, 2]).patches[1].get_height())",
    "sympy": "import sympy; x = sympy.Symbol('x'); print(sympy.integrate(x ** 2, x))",
    "PIL": "from PIL import Image; i = Image.new('RGB', (9, 9), 'red'); i.save('output/a.png'); print(Image.open('output/a.png').size)",
    "openpyxl": "import openpyxl as o; w = o.Workbook(); w.active['A1'] = 5; w.save('output/a.xlsx'); print(o.load_workbook('output/a.xlsx').active['A1'].value)",
    "excel": "import pandas as pd; pd.DataFrame({'a': [1]}).to_excel('output/b.xlsx'); print(pd.read_excel('output/b.xlsx')['a'][0])",
    "pyarrow": "import pyarrow as pa, pyarrow.parquet as q; q.write_table(pa.table({'a': [1, 2]}), 'output/a.pq'); print(q.read_table('output/a.pq').num_rows)",
    "parquet": "import pandas as pd; pd.DataFrame({'a': [1]}).to_parquet('output/b.pq'); print(len(pd.read_parquet('output/b.pq')))",
    "duckdb": "import duckdb; print(duckdb.sql('select sum(range) from range(10)').fetchall())",
    "polars": "import polars as pl; print(pl.DataFrame({'a': [1, 2]})['a'].sum())",
    "lxml": "from lxml import etree; print(etree.fromstring('<a><b>x</b></a>').findtext('b'))",
    "beautifulsoup": "from bs4 import BeautifulSoup as B; print(B('<p>x</p>', 'lxml').p.text, B('<p>y</p>', 'html5lib').p.text)",
    "networkx": "import networkx as nx; print(nx.shortest_path(nx.path_graph(4), 0, 3))",
    "statsmodels": "import statsmodels.api as sm; print(round(sm.OLS([1, 2, 3], sm.add_constant([1, 2, 3])).fit().params[1], 6))",
    "plotly": "import plotly.graph_objects as go; print(len(go.Figure(go.Bar(y=[1, 2])).to_html()) > 1000)",
    "pypdf": "import io; from reportlab.pdfgen import canvas; import pypdf; b = io.BytesIO(); c = canvas.Canvas(b); c.drawString(9, 9, 'hello'); c.save(); print(pypdf.PdfReader(b).pages[0].extract_text())",
    "requests": "import requests; print(requests.Request('GET', 'http://a').prepare().url)",
    "tabulate": "from tabulate import tabulate; print(tabulate([[1]]))",
    "sqlite": "import sqlite3; c = sqlite3.connect('output/a.db'); c.execute('create table t(a)'); c.commit(); print('ok')",
    "joblib": "from joblib import Parallel, delayed\nprint(Parallel(n_jobs=2)(delayed(abs)(-n) for n in range(4)))",
    "sklearn in parallel": "from sklearn.ensemble import RandomForestClassifier as R; import numpy as np; X = np.random.rand(80, 3); print(R(20, n_jobs=2).fit(X, X[:, 0] > .5).score(X, X[:, 0] > .5) > .5)",
    "cross validation in processes": "from sklearn.model_selection import cross_val_score as c; from sklearn.linear_model import Ridge; import numpy as np\nif __name__ == '__main__':\n    X = np.random.rand(40, 2); print(len(c(Ridge(), X, X[:, 0], n_jobs=2)))",
    "numpy in processes": "import numpy as np\nfrom multiprocessing import Pool\ndef f(n): return float((np.ones((n, n)) @ np.ones((n, n))).sum())\nif __name__ == '__main__':\n    with Pool(2) as p: print(p.map(f, [2, 3]))",
    "numpy in threads": "import numpy as np\nfrom concurrent.futures import ThreadPoolExecutor as T\nwith T(2) as t: print(list(t.map(lambda n: float((np.ones((n, n)) @ np.ones((n, n))).sum()), [200, 300])))",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_simply_works(name: str) -> None:
    result = cloche.run(LIBRARIES[name], memory="1G", timeout=60, processes=100)
    assert result.ok, result.stderr
    assert result.stderr == ""
    assert result.stdout


def test_a_chart_in_many_scripts_is_drawn_without_a_warning() -> None:
    code = (
        "import matplotlib.pyplot as plt, sys\nplt.figure()\nplt.plot([1, 2])\nplt.title('世界 グラフ 그래프 grüße Привет عربى')\n"
        "plt.savefig('output/a.png')\nsys.stdout.buffer.write(open('output/a.png', 'rb').read())"
    )
    result = cloche.run(code)
    assert result.stderr == ""
    assert result.stdout_bytes.startswith(b"\x89PNG")
    assert len(result.stdout_bytes) > 5000


@pytest.mark.parametrize("name", ["cloche", "rich_argparse", "mypy", "ruff", "hatchling"])
@pytest.mark.parametrize("word", ["", "  # numpy"])
def test_nothing_of_the_server_can_be_imported(name: str, word: str) -> None:
    error = error_of(cloche.run(f"import {name}{word}"), "runtime")
    assert error.name == "ModuleNotFoundError"


# --- chance

DRAWS = {
    "random": "import random; print(random.random(), random.getrandbits(64))",
    "random instance": "import random; print(random.Random().random(), random.SystemRandom().random())",
    "random shuffle": "import random; x = list(range(50)); random.shuffle(x); print(x)",
    "uuid": "import uuid; print(uuid.uuid1(), uuid.uuid4())",
    "secrets": "import secrets; print(secrets.token_hex(), secrets.randbelow(1 << 60))",
    "tempfile": "import tempfile; print(tempfile.mktemp(), tempfile.mkdtemp())",
    "os": "import os; print(os.urandom(8).hex())",
    "numpy": "import numpy as np; print(np.random.rand(), np.random.default_rng().random(), np.random.RandomState().rand())",
    "numpy old": "import numpy.random; print(numpy.random.randint(1 << 60), numpy.random.standard_normal())",
    "pandas": "import pandas as pd; print(list(pd.Series(range(100)).sample(10)))",
    "scipy": "from scipy import stats; print(stats.norm.rvs())",
    "sklearn": "from sklearn.model_selection import train_test_split as t; print(t(range(100))[1])",
    "sympy": "import sympy.core.random as r; print(r.random(), r.rng.random())",
}


@pytest.mark.parametrize("name", DRAWS)
def test_two_sandboxes_never_draw_the_same_numbers(name: str) -> None:
    drawn = [cloche.run(DRAWS[name]) for _ in range(3)]
    assert all(result.ok for result in drawn), drawn
    assert len({result.stdout for result in drawn}) == 3


def test_two_programs_of_one_sandbox_never_draw_the_same_numbers_either(box: cloche.Sandbox) -> None:
    for name in ("random", "numpy", "uuid", "tempfile"):
        drawn = [box.run_program(DRAWS[name]).stdout for _ in range(3)]
        assert len(set(drawn)) == 3


def test_no_number_of_one_sandbox_is_the_next_ones() -> None:
    code = "import random, numpy\nfor _ in range(50): print(random.random(), numpy.random.rand(), sep='\\n')"
    first, second = (set(cloche.run(code).stdout.split()) for _ in range(2))
    assert len(first) == len(second) == 100
    assert not first & second


def test_a_seed_gives_the_numbers_that_it_always_gives() -> None:
    code = "import random, numpy as np; random.seed(1); np.random.seed(1); print(random.random(), np.random.rand())"
    assert cloche.run(code).stdout == "0.13436424411240122 0.417022004702574\n"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import sys\nprint('py', sys.version_info[0])", "py 3\n"),
        ('#!/usr/bin/env bash\nfor i in 1 2; do echo -n "$i"; done', "12"),
        ("const xs = [1, 2, 3].map((x) => x * 2);\nconsole.log(xs.join(' '));", "2 4 6\n"),
    ],
)
def test_the_language_is_told_from_the_code(jail, code, printed):
    assert cloche.run(code, language=None).stdout == printed


@pytest.mark.parametrize("code", ["Dear all, we shall meet at noon.", '{"a": [1, 2, 3], "b": null}'])
def test_a_language_that_cannot_be_told_or_run_is_said_so(jail, code):
    with pytest.raises(cloche.InvalidRun) as refused:
        cloche.run(code, language=None)
    assert "python" in refused.value.hint


def test_signals_that_its_caller_ignores_reach_a_program() -> None:
    script = """
import cloche, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print(cloche.run("import os, signal; os.kill(os.getpid(), signal.SIGHUP)").exit_code)
print(cloche.run("kill -HUP $$", language="bash").exit_code)
with cloche.Sandbox() as box:
    print(box.commands.run("kill -HUP $$").exit_code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["129"] * 3, done.stderr
