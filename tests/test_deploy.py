"""What is in deploy/ fits the rest; whether an image comes of it only a Docker engine can tell."""

from __future__ import annotations

import re
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
