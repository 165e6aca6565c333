"""The saboteurs of `test_saboteurs`, with every other Python that is installed: each version has tracers of its own.

Programs run in forks of a Python that has only Cloche's `python_script`, without a sandbox.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.agent.test_saboteurs import FAILURES, LIARS, PRELUDE, SABOTEURS

SOURCES = Path(__file__).parents[2] / "src"
VERSIONS = [f"3.{minor}" for minor in range(11, 16) if minor != sys.version_info.minor]

# Reads programs by name from stdin; prints those that ended differently in the two ways.
COMPARE = """
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from cloche.agent import python_script
python_script.seal()
nothing = os.open(os.devnull, os.O_RDWR)
script = os.path.join(os.getcwd(), "main.py")

def ours():
    pid = os.fork()
    if pid == 0:
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        python_script.run({"script": script, "cwd": os.getcwd(), "env": dict(os.environ), "args": []})
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def theirs():
    return subprocess.call([sys.executable, "-S", script], stdin=nothing, stdout=nothing, stderr=nothing)

different = {}
for name, (program, expected) in json.load(sys.stdin).items():
    with open(script, "w") as file:
        file.write(program)
    ended = [ours(), theirs() if expected is None else expected]
    if ended[0] != ended[1]:
        different[name] = ended
print(json.dumps(different))
"""

# The timer's signals arrive while the program ends, where only frames of ours run.
TIMER = """
    import signal
    def end(_, frame):
        if frame is None or frame.f_code.co_filename != __file__: raise SystemExit(0)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, {delay}, 0.00002)
    raise SystemExit(1)
"""


def find_python(version: str) -> str | None:
    """Return a Python of this version: from beside the running one, or from the path."""
    beside = sorted(map(str, Path(sys.base_prefix).parent.glob(f"*{version}*/bin/python{version}")), reverse=True)
    for path in (*beside, shutil.which(f"python{version}")):
        # A version manager may have a command that only says that there is no such version.
        if path is not None and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


def ended_differently(python: str, folder: Path, programs: dict[str, tuple[str, int | None]]) -> dict[str, list[int]]:
    done = subprocess.run(
        [python, "-S", "-c", COMPARE, SOURCES],
        input=json.dumps(programs),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_saboteurs_change_nothing_in_another_python(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    programs: dict[str, tuple[str, int | None]] = {name: (program, None) for name, program in LIARS.items()}
    for name, saboteur in SABOTEURS.items():
        # What replaces the display of an exception matters for exceptions; the exit shows everything else.
        failure = "exception" if re.search("hook|traceback|stream|codecs", name) else "exit"
        programs[f"{name}, {failure}"] = f"{PRELUDE}{dedent(saboteur)}\n{FAILURES[failure]}\n", None
    assert ended_differently(python, tmp_path, programs) == {}


@pytest.mark.parametrize("version", [f"3.{sys.version_info.minor}", *VERSIONS])
def test_a_signal_while_a_program_ends_does_not_make_it_successful(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    timers: dict[str, tuple[str, int | None]] = {
        f"{number}": (dedent(TIMER).format(delay=0.00001 + number * 0.00001), 1) for number in range(30)
    }
    assert ended_differently(python, tmp_path, timers) == {}
