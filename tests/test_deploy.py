"""What is in deploy/ fits the rest; whether an image comes of it only a Docker engine can tell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def patterns(name: str) -> set[str]:
    """The lines of a list of what to leave out, in one form: git's hold anywhere unless they begin with a slash."""
    lines = {line.strip() for line in (ROOT / name).read_text().splitlines()}
    found = {line.rstrip("/") for line in lines if line and not line.startswith("#")}
    return {line[1:] if line.startswith("/") else line.removeprefix("**/") for line in found}


def test_an_image_takes_nothing_along_that_was_made_here_for_here():
    assert patterns(".gitignore") | {".git"} <= patterns(".dockerignore")


def test_an_image_has_the_playground_as_make_run_has():
    (built,) = re.findall(r"^RUN make (.*?)(?: \\)?$", (ROOT / "deploy/Dockerfile").read_text(), re.M)
    assert {"install", "page"} <= set(built.split())


def test_a_wheel_has_the_playground_or_is_not_built(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE", "scripts/wheel_hook.py", "src/cloche/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "dist"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "The playground is not built" in refused.stderr
    assert not list(tmp_path.glob("dist/*"))

    page = tmp_path / "src/cloche/doors/page/built/index.html"
    page.parent.mkdir(parents=True)
    page.write_text("the playground")
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    (wheel,) = tmp_path.glob("dist/*.whl")
    assert zipfile.ZipFile(wheel).read("cloche/doors/page/built/index.html") == b"the playground"
