"""What tests share: a real jail, and a fresh sandbox in it."""

from __future__ import annotations

import os
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

    def __init__(self, folder: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", str(folder / "data")]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, *flags], stdout=subprocess.PIPE, stderr=log, env={**inherited, **(env or {})}
            )
        assert self.process.stdout is not None
        first = self.process.stdout.readline().decode()
        if "ready at " not in first:
            self.kill()
            raise AssertionError(f"{first}{self.log.read_text()}")
        self.url = first.split("ready at ")[1].strip()
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


@pytest.fixture
def serve(jail: None, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers with flags of the test's choice, each with its own data unless `folder` says otherwise."""
    started: list[Server] = []

    def start(*flags: str, folder: str = "", env: dict[str, str] | None = None) -> Server:
        running = Server(tmp_path / (folder or f"server-{len(started)}"), *flags, env=env)
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
