"""The world outside, as the tests see it: its servers (world.py), a database, and clients that have to be installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2b.clients import install

HERE = Path(__file__).parent
RUNNING = "CLOCHE_TEST_WORLD"  # the JSON of a world that runs already: ports below 1024 may need another user
DATABASE = "CLOCHE_TEST_WORLD_DATABASE"  # the same for its database: its address


class World:
    """The servers of world.py."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.address: str = known["address"]
        self.closed: str = known["closed"]
        self.names: list[str] = known["names"]
        self.settings: dict[str, str] = known["settings"]
        self.ca = Path(known["ca"])
        self.log = Path(known["log"])
        self.pid: int = known["pid"]

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """The TLS handshakes and requests that arrived; `since` leaves out the first ones."""
        return [json.loads(line) for line in self.log.read_text().splitlines()[since:]]

    def count(self) -> int:
        """The number of events until now."""
        return self.log.read_bytes().count(b"\n")


@contextmanager
def started() -> Iterator[str]:
    """Start a world; the block gets its JSON."""
    command = [sys.executable, "-m", "tests.network.world"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parents[1]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            known = process.stdout.readline().decode()
            assert known, f"the world did not start: {process.wait(10)}"
            yield known
        finally:
            process.stdin.close()  # it ends with its input
            process.wait(30)


def clients() -> Path:
    """A folder with the clients of clients.lock; on CI they have to be there."""
    folder, lock = install.PLACE / "network-clients", HERE / "clients.lock"

    def make() -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        place = ["--only-binary", ":all:", "--upgrade", "--target", str(folder)]
        subprocess.run([*pip, *place, "-r", str(lock)], check=True, timeout=110)

    try:
        install.ensure(folder, lock, make)
    except (OSError, subprocess.SubprocessError) as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"clients cannot be installed: {problem}")
    return folder
