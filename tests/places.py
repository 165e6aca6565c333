"""Where the tests of the library run: in this process, and on a server of their own, over HTTP.

A folder of tests uses it by importing `place` and the two hooks into its conftest.py.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

READY_S = 60.0
HERE, THERE = "embedded", "over HTTP"


class Served:
    """A server: `cloche serve`, with a folder of its own."""

    def __init__(self, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cloche-served-")
        data = Path(self._folder.name)
        self.log = data / "log"
        environment = {name: value for name, value in os.environ.items() if name not in ("CLOCHE_URL", "CLOCHE_API_KEY")}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", str(data), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        self.url = self._ready()
        self.key = (data / "key").read_text().strip()

    def _ready(self) -> str:
        assert self.process.stdout is not None
        told, deadline = b"", time.monotonic() + READY_S
        while b"\n" not in told:
            readable, _, _ = select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))
            more = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            assert more, f"the server did not come up: {self.log.read_text()}"
            told += more
        return told.split(b" at ")[1].split()[0].decode()

    def stop(self) -> None:
        """End it, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._folder.cleanup()


_served: list[Served] = []  # by the folder that is being tested


def served() -> Served:
    """The server of this folder of tests, started by the first who wants it."""
    if not _served:
        _served.append(Served("--max-output", "1G", "--max-body", "256M", "--runs-at-once", "64", "--mounts", "/"))
    return _served[0]


@pytest.fixture(scope="module", params=[HERE, THERE], autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where sandboxes are made that do not say otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLOCHE_URL", raising=False)
        if request.param == THERE:
            server = served()
            patch.setenv("CLOCHE_URL", server.url)
            patch.setenv("CLOCHE_API_KEY", server.key)
        yield request.param


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What makes sense in this process only runs in this process only."""
    twice = [item for item in items if item.get_closest_marker("embedded") and _place(item) == THERE]
    if twice:
        config.hook.pytest_deselected(items=twice)
        items[:] = [item for item in items if item not in twice]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The server ends with the last test of its folder, so that it is in nobody else's way."""
    if _served and (nextitem is None or nextitem.path.parent != item.path.parent):
        _served.pop().stop()


def _place(item: pytest.Item) -> Any:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("place")
