"""Kernels in a fresh interpreter, where the sandbox has another version of a library that forked kernels have loaded.

The library is pytz here, which pandas needs: a copy with a mark.  tests/packages has the same with real versions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import cloche

pytestmark = pytest.mark.embedded  # a server that has just started forks kernels that have loaded nothing

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
PLACE = f".local/{SITE}"
OWN = f"""
mkdir -p {PLACE} && cp -r /opt/env/{SITE}/pytz {PLACE} && rm -r {PLACE}/pytz/__pycache__
echo "MARK = 'own'" >> {PLACE}/pytz/__init__.py
"""
IS_FORKED = "import sys; 'numpy' in sys.modules"  # before anything else has run: the nursery has imported it
MARK = "import pytz; getattr(pytz, 'MARK', 'the environment')"


def make_own(box: cloche.Sandbox) -> None:
    done = box.commands.run(OWN)
    assert done.error is None, done.stderr


@pytest.fixture(scope="module")
def fresh(warm: None, place: str) -> Iterator[cloche.Sandbox]:
    """A sandbox whose kernels are fresh, for tests that do not mind what others have left in it."""

    def double(x: int) -> int:
        return 2 * x

    with cloche.Sandbox(memory="1G", tools={"double": double}) as box:
        make_own(box)
        yield box


def test_a_kernel_keeps_the_version_that_it_has_until_it_is_restarted(box):
    assert box.run(IS_FORKED).text == "True"
    assert box.run(MARK).text == "'the environment'"
    before = box.checkpoint()
    make_own(box)
    assert box.run(MARK).text == "'the environment'"
    box.restart()
    assert box.run(IS_FORKED).text == "False"
    assert box.run(f"{MARK}, __import__('pandas').DataFrame({{'a': [1]}}).size").text == "('own', 1)"
    box.restore(before)
    assert box.run(MARK).text == "'the environment'"
    box.restart()
    assert box.run(IS_FORKED).text == "True"


def test_a_new_context_and_a_kernel_that_follows_a_dead_one_are_fresh(box):
    box.run("1")
    make_own(box)
    other = box.contexts.create()
    assert other.run(MARK).text == "'own'"
    assert box.run("import os; os._exit(3)").error is not None
    assert box.run(MARK).text == "'own'"


def test_contexts_of_other_languages_do_not_mind(box):
    make_own(box)
    assert box.run("x=1; echo $x", language="bash").stdout == "1\n"
    assert box.run("echo $x", language="bash").stdout == "1\n"
    assert box.run(MARK).text == "'own'"


def test_a_sandbox_that_may_have_one_process_can_have_a_fresh_kernel():
    with cloche.Sandbox(processes=1) as box:
        box.files.write(f"{PLACE}/pytz.py", "MARK = 'own'")
        assert box.run(MARK).text == "'own'"


def test_a_fresh_kernel_looks_like_a_forked_one(box):
    facts = """
import os, signal, site, sys
def descriptors():
    named = {name: os.path.lexists(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}")
             for name in os.listdir("/proc/self/fd")}
    return sorted(name.split(":")[0] for name in named.values() if name and not name.endswith("/fd"))
facts = {
    "path": sys.path, "executable": [sys.executable, sys.prefix, sys.exec_prefix], "flags": sys.flags,
    "arguments": [sys.argv, sys.orig_argv], "site": [site.USER_BASE, site.USER_SITE, site.ENABLE_USER_SITE],
    "environment": dict(os.environ), "folder": os.getcwd(),
    "finders": [str(each).split(" at ")[0] for each in sys.meta_path if "Shelf" not in str(each)],
    "descriptors": descriptors(), "modules": [name for name in sys.modules if "cloche" in name or name == "readline"],
    "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)],
    "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()), "session": os.getsid(0) == os.getpid(),
    "score": open("/proc/self/oom_score_adj").read(), "streams": [sys.stdout.encoding, sys.stderr.errors],
}
for name, value in facts.items():
    print(name, value)
"""
    env = {"PYTHONPATH": "/sandbox", "LANG": "C"}
    forked = box.contexts.create(env=env, cwd="data").run(facts).stdout
    make_own(box)
    fresh = box.contexts.create(env=env, cwd="data").run(facts).stdout
    assert fresh.splitlines() == forked.splitlines()
    assert len(fresh.splitlines()) > 12


def test_nobody_finds_our_modules(box):
    make_own(box)
    code = "try:\n    import cloche.kernels\nexcept ModuleNotFoundError as problem:\n    print(problem.name)"
    assert box.run(code).stdout == "cloche\n"


def test_displays_tables_and_charts(fresh):
    shown = fresh.run(
        "import pandas as pd\nfrom matplotlib import pyplot\nframe = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\n"
        "pyplot.plot([1, 4], label='line')\npyplot.title('Lines')\npyplot.show()\nprint('between')\n"
        "display({'text/html': '<b>1</b>'}, raw=True)\nframe"
    )
    assert shown.error is None
    chart, html, table = shown.results
    assert (chart.chart["title"], bool(chart.png)) == ("Lines", True)
    assert html.html == "<b>1</b>"
    assert (table.is_main, table.text) == (True, "   a  b\n0  1  x\n1  2  y")
    assert "'x'" in str(table.table)


def test_tools_input_and_interrupts(fresh):
    assert fresh.run("kept = cloche.tools.double(21); kept").text == "42"
    assert fresh.run("input('Name? ')", stdin="Ada\n").text == "'Ada'"
    late = fresh.run("while True: pass", timeout=0.3)
    assert (late.error.kind, late.restarted) == ("timeout", False)
    assert fresh.run("kept").text == "42"


def test_an_interrupt_while_the_kernel_starts_does_not_end_it(fresh):
    fresh.restart()
    fresh.run("pass", timeout=0.01)  # the start alone takes longer
    result = fresh.run("1 + 1")
    assert (result.text, result.error) == ("2", None)


def test_checkpoints_and_branches(fresh):
    fresh.run("x = [1]; file = open('/sandbox/notes', 'w')")
    point = fresh.checkpoint()
    fresh.run("x.append(2)")
    branch = fresh.branch(point)
    assert branch.run("x.append(3); x").text == "[1, 3]"
    assert branch.run(MARK).text == "'own'"
    fresh.restore(point)
    assert fresh.run("x").text == "[1]"
    assert fresh.run(MARK).text == "'own'"


def test_variables_tracebacks_and_sources(fresh):
    fresh.run("def f(): return 1 / 0\nclass Kept: value = 7")
    error = fresh.run("f()").error
    assert (error.name, "Cell In[" in error.traceback, "cloche" in error.traceback) == (
        "ZeroDivisionError",
        True,
        False,
    )
    assert fresh.run("import inspect; inspect.getsource(Kept)").text == "'class Kept: value = 7\\n'"
    assert "Kept" in {each.name for each in fresh.variables().items}


def test_a_failure_is_not_reported_as_a_success(fresh):
    sabotage = (
        "import builtins, os\nbuiltins.issubclass = lambda *_: True\nos._exit = lambda *_: None\nraise SystemExit(3)"
    )
    assert not fresh.run(sabotage).ok
    assert not fresh.run("raise ValueError").ok
    fresh.restart()


BROKEN = "raise ImportError('broken on purpose')\n"
SPYING = (
    "import os, sys\n"
    "found = [name for name in sys.modules if name.startswith('cloche')]\n"
    "open('/sandbox/seen', 'a').write(repr(found))\n"
)


@pytest.mark.parametrize("code", [BROKEN, SPYING + BROKEN], ids=["broken", "spying"])
def test_own_packages_that_the_kernel_itself_needs_cannot_keep_it_from_starting(box, code):
    box.files.write(f"{PLACE}/IPython/__init__.py", code)
    box.run("1")
    box.files.write(f"{PLACE}/usercustomize.py", "open('/sandbox/customized', 'w')")
    make_own(box)
    box.restart()
    result = box.run(MARK)
    assert (result.text, result.error) == ("'own'", None)
    # `make_own` has run no Python, and the kernel's must not run this before its loop is sealed.
    assert not box.files.exists("customized")
    if code != BROKEN:
        assert set(box.files.read("seen").decode().split("]")) == {"[", ""}  # it has run, and has found none of ours


@pytest.mark.parametrize(
    ("path", "is_forked"),
    [
        ("polars/__init__.py", True),  # nobody has loaded it
        ("pytz.py", False),
        ("pytz.abi3.so", False),
        ("pytz.txt", True),
        ("pytz-99.0.dist-info/METADATA", True),
        ("dateutil/__init__.py", False),
        ("dateutil/data.txt", True),  # a folder without code goes after every module
        ("mpl_toolkits/mplot3d/__init__.py", False),  # part of a namespace
        ("mpl_toolkits/other/__init__.py", True),
        ("typing.py", True),  # Python's own modules go first
        ("sitecustomize.py", True),
        ("project.pth", True),
    ],
)
def test_only_files_that_an_import_would_find_first_make_a_kernel_fresh(box, path, is_forked):
    box.files.write(f"{PLACE}/{path}", "")
    assert box.run(IS_FORKED).text == str(is_forked)
