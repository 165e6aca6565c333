"""`scripts/soak`: a short run, and its judgement of counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.soak import TOLERANCE, growth

ROOT = Path(__file__).parents[2]


def test_a_short_soak_works_kills_and_counts(jail: None) -> None:
    command = [sys.executable, "-m", "scripts.soak", "--minutes", "0.05", "--round", "3", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=ROOT, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[0]["seed"] == 1
    assert all(lines[1][name] > 0 for name in TOLERANCE if name != "control groups")
    assert lines[-1]["counts"] == 1
    assert sum(lines[-1]["tasks"].values()) > 0


@pytest.mark.parametrize("name", TOLERANCE)
def test_a_figure_that_grows_is_named(name: str) -> None:
    flat = [dict.fromkeys(TOLERANCE, 100.0) for _ in range(15)]
    assert growth(flat) == []
    (problem,) = growth([{**count, name: 100.0 + 10 * number} for number, count in enumerate(flat)])
    assert problem.startswith(f"{name} grew from ")


def test_a_figure_that_only_varies_is_not() -> None:
    varying = [dict.fromkeys(TOLERANCE, 100.0 + number % 2) for number in range(15)]
    assert growth(varying) == []
