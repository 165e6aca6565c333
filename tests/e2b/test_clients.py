"""E2B's clients, unmodified, against a real server: each file of theirs is one test here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("file", sorted((HERE / "python").glob("check_*.py")), ids=lambda path: path.stem)
def test_the_python_client(file: Path, client_python: Path, e2b_environment: dict[str, str]) -> None:
    command = [str(client_python), "-m", "pytest", "-q", "-c", str(HERE / "python" / "pytest.ini"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=e2b_environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted((HERE / "javascript").glob("*.test.mjs")), ids=lambda path: path.stem)
def test_the_javascript_client(file: Path, client_node: Path, e2b_environment: dict[str, str]) -> None:
    # Node looks for packages beside the file that wants them, so it runs a copy of it there.
    copy = client_node / file.name
    copy.write_text(file.read_text())
    done = subprocess.run(
        ["node", "--test", str(copy)], capture_output=True, text=True, timeout=110, env=e2b_environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
