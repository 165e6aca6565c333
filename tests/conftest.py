"""What tests share: a real jail, and a fresh sandbox in it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import cloche

# What takes longest begins first: at the end it would keep one processor busy while the others have nothing to do.
LONGEST = (
    "environment/test_package.py",
    *("web/test_playground.py", "fuzz/test_operations.py", "host/test_others_than_root.py"),
    "corpora/test_notebooks.py",
    *("engine/test_run.py", "service/test_workspaces.py", "service/test_restart.py", "sessions/test_streams.py"),
    *(
        "e2b/test_clients.py",
        "agent/test_python_program.py",
        "sessions/test_javascript.py",
        "sessions/test_attempts.py",
    ),
    *("sessions/test_crashes.py", "doors/test_http.py", "doors/test_mcp_conformance.py", "cli/test_mcp.py"),
)


# One folder of layers for all tests and their servers, which a second run finds again; an ordinary user has another.
_ROOT = Path(__file__).parent.parent
_OWN = _ROOT / ".venv" if os.access(_ROOT / ".venv", os.W_OK) else Path(f"/tmp/cloche-tests-{os.geteuid()}")
PACKAGES_FOLDER = os.environ.setdefault("CLOCHE_PACKAGES_FOLDER", str(_OWN / "packages"))


# Where `make test` looks for tests that are marked `alone`.
ALONE = ("host", "limits", "escape")


def pytest_configure() -> None:
    """Heed what whoever runs the tests may ignore (`nohup`, `&`): what tests start would ignore it, too."""
    for number, usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the others stay in their order."""
    for item in items:
        if item.get_closest_marker("alone") and item.path.parent.name not in ALONE:
            raise pytest.UsageError(f"{item.nodeid} is marked `alone`, but nobody looks for it there: see the Makefile")
    places = {Path(__file__).parent / path: place for place, path in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session")
def jail() -> None:
    """A jail that works; on CI it has to, elsewhere its absence is a reason to skip."""
    try:
        result = cloche.run("print('works')")
    except (cloche.SandboxFailed, cloche.Misconfigured) as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no jail on this host: {problem}")
    assert result.stdout == "works\n"


@pytest.fixture
def box(jail: None) -> Iterator[cloche.Sandbox]:
    """A fresh sandbox."""
    with cloche.Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def async_box(jail: None) -> AsyncIterator[cloche.AsyncSandbox]:
    """A fresh sandbox, for asyncio."""
    async with cloche.AsyncSandbox() as sandbox:
        yield sandbox


class Server:
    """A real server, in a process of its own."""

    def __init__(
        self, folder: Path, *flags: str, env: dict[str, str] | None = None, descriptors: int | None = None
    ) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", str(folder / "data")]
        if descriptors is not None:
            command = ["prlimit", f"--nofile={descriptors}", *command]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
        inherited["CLOCHE_PACKAGES_FOLDER"] = PACKAGES_FOLDER
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, *flags], stdout=subprocess.PIPE, stderr=log, env={**inherited, **(env or {})}
            )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().decode()
        found = re.match(r"Cloche is (?:ready at|not ready) \(?(http://[^\s)]+)", self.greeting)
        if found is None:
            self.kill()
            raise AssertionError(f"{self.greeting}{self.log.read_text()}")
        self.url = found[1]
        self.port = int(self.url.rpartition(":")[2])
        self.key = (folder / "data" / "key").read_text().strip()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def client(self, key: str | None = None, **options: Any) -> httpx2.Client:
        """A plain HTTP client with the server's key, or another."""
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, **options)

    def stop(self) -> int:
        """Have it stop, as systemd would; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Kill it, as nobody should."""
        self.process.kill()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def server(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share; those that break or configure one start their own with `serve`."""
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def served(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for tests of the library, which is allowed more there than most servers would."""
    options = ("--max-output", "1G", "--max-body", "256M", "--runs-at-once", "64", "--mounts", "/")
    running = Server(tmp_path_factory.mktemp("served"), *options)
    yield running
    running.stop()


@pytest.fixture
def serve(jail: None, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers with flags of the test's choice, each with its own data unless `folder` says otherwise."""
    started: list[Server] = []

    def start(*flags: str, folder: str = "", env: dict[str, str] | None = None, **more: Any) -> Server:
        # Most have little to run: to load pandas and the like ahead would take longer than all of it.
        place = tmp_path / (folder or f"server-{len(started)}")
        running = Server(place, *flags, env={"CLOCHE_WARM": "0", **(env or {})}, **more)
        started.append(running)
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            running.stop()


@pytest.fixture
def http(server: Server) -> Iterator[httpx2.Client]:
    """An HTTP client of the shared server, with its admin's key."""
    with server.client() as client:
        yield client
