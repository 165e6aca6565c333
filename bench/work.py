"""The programs that are measured, and what runs them without Cloche: a bare interpreter, and `docker run`."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cloche import environment

CALL_S = 120.0  # no single call may take longer

HELLO = "print(1)"

PANDAS = """\
import pandas as pd
df = pd.DataFrame({"a": range(100), "b": [i * 0.5 for i in range(100)]})
print(df.describe().to_json())
"""

CHART = """\
import base64
import io
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([i * i for i in range(50)])
buf = io.BytesIO()
fig.savefig(buf, format="png")
plt.close(fig)
print(base64.b64encode(buf.getvalue()).decode())
"""

# These two time themselves, ten times: their start is not measured.
LOOP = """\
import time
def work(n):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s
work(1000)
for _ in range(10):
    t0 = time.perf_counter()
    work(300_000)
    print(time.perf_counter() - t0)
"""

MATMUL = """\
import time
import numpy as np
a = np.arange(160000, dtype=float).reshape(400, 400) / 160000.0
b = np.matmul(a, a)
for _ in range(10):
    t0 = time.perf_counter()
    for _ in range(4):
        b = np.matmul(a, a)
    print(time.perf_counter() - t0)
"""

OUTPUT_MB = 100
OUTPUT = f"""\
import sys
block = b"x" * 65535 + b"\\n"
for _ in range({OUTPUT_MB} * 16):
    sys.stdout.buffer.write(block)
"""


class WrongOutput(Exception):
    """The program did not do its work, so its time means nothing."""


def check(code: str, output: str) -> None:
    """Raise unless the output is what the program has to print."""
    text = output.strip()
    if code == HELLO:
        good = text == "1"
    elif code == PANDAS:
        good = text.startswith("{") and '"count":100.0' in text
    elif code == CHART:
        good = base64.b64decode(text[:64] or "?", validate=False).startswith(b"\x89PNG")
    elif code == OUTPUT:
        good = len(output) == OUTPUT_MB << 20
    else:
        good = bool(text)
    if not good:
        raise WrongOutput(f"wrong output: {text[-200:]!r}")


def times(output: str) -> list[float]:
    """Parse the output of a program that times itself."""
    return [float(line) for line in output.split()]


class Bare:
    """This interpreter as a subprocess: no sandbox, nothing warm, the sandboxes' libraries on its path."""

    def __init__(self, scratch: Path) -> None:
        home = Path(os.environ.get("CLOCHE_ENVIRONMENT") or environment.location())
        self._plain = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(scratch), "LANG": "C.UTF-8"}
        self.libraries = {
            **self._plain,
            "PYTHONPATH": str(home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"),
            "MATPLOTLIBRC": str(home / "share" / "matplotlib" / "matplotlibrc"),  # the same fonts, for the same chart
            "MPLCONFIGDIR": str(scratch),  # the warm-up writes Matplotlib's list of fonts here
            # Sandboxes have one CPU by default, and so one thread in NumPy.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, code: str) -> tuple[str, float]:
        return timed([sys.executable, "-c", code], self._plain if code == HELLO else self.libraries)


class Docker:
    """`docker run` of the smallest Python image on this host; no image is downloaded."""

    def __init__(self) -> None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        known = [f"python:{version}-{kind}" for kind in ("alpine", "slim", "slim-bookworm")]
        self.image = next((image for image in (*known, "peers-box:1") if _docker("image", "inspect", image)), "")

    def missing(self) -> str | None:
        """Return why Docker cannot be measured here."""
        if not shutil.which("docker"):
            return "docker is not installed"
        if not _docker("version", "--format", "{{.Server.Version}}"):
            return "no Docker engine answers"
        return None if self.image else "no Python image is here (docker pull python:3.11-slim)"

    def run(self, code: str) -> tuple[str, float]:
        argv = ["docker", "run", "--rm", "--network=none", self.image, "python3", "-c", code]
        return timed(argv, dict(os.environ))


def _docker(*args: str) -> str:
    try:
        done = subprocess.run(["docker", *args], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def timed(argv: list[str], env: dict[str, str]) -> tuple[str, float]:
    """Run a command; return its output, and the seconds from its start to its end."""
    start = time.perf_counter()
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S)
    seconds = time.perf_counter() - start
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise WrongOutput(f"{os.path.basename(argv[0])} ended with {done.returncode}: {reason[-200:]}")
    return done.stdout.decode(), seconds
