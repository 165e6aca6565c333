"""E2B's own clients, in environments of their own, and how their tests are run.

What a client does is written as tests for that client: `python/check_*.py` (pytest, with the Python client at hand) and
`javascript/*.test.mjs` (Node's own test runner).  `test_clients.py` runs each file against the shared server, with the
variables that `cloche e2b` prints.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2b.clients import install
from tests.loop_watch import pytest_pyfunc_call as pytest_pyfunc_call  # no test may hold the server's event loop

collect_ignore = ["python", "javascript", "clients"]  # for other interpreters than ours


@pytest.fixture(scope="session")
def client_python() -> Path:
    """A Python that has E2B's clients."""
    return install.python()


@pytest.fixture(scope="session")
def client_node() -> Path:
    """A folder in which Node finds E2B's clients, if it is one that they can be used with."""
    if not install.node_is_recent():
        pytest.skip("E2B's client wants Node 20.18 or later")
    return install.node()


@pytest.fixture(scope="session")
def e2b_environment(server: Any) -> dict[str, str]:
    """The environment of a program that uses E2B's client with the shared server."""
    command = [sys.executable, "-m", "cloche.cli.main", "e2b", "--url", server.url.replace("127.0.0.1", "localhost")]
    done = subprocess.run(
        [*command, "--data-dir", str(server.folder / "data")], capture_output=True, text=True, check=True
    )
    pairs = (line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
    ours = ("CLOCHE_", "E2B_", "PYTEST")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, **{name: value.strip("'") for name, value in pairs}}
