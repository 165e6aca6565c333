"""A real PostgreSQL of our own for tests: in a temporary folder, on loopback, gone with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

USER, PASSWORD = "cloche", "correct-horse"
SETTINGS = "-c fsync=off -c shared_buffers=16MB -c max_connections=60 -c autovacuum=off"

# Waits until its input ends, as it does however the tests end; then nothing is left.
AFTERWARDS = """
read _
server=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$server"
# Where nobody buries the dead, as in a container without an init, it stays in sight: its state then says so.
while [ -n "$server" ] && grep -q "^State:.[^Z]" "/proc/$server/status" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"
"""


def program(name: str) -> str | None:
    """Where one of PostgreSQL's programs is; Debian keeps them off the PATH."""
    found = sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: float(path.split("/")[4]))
    return shutil.which(name) or (found[-1] if found else None)


class PostgreSQL:
    """A server; it can be stopped and started again, and keeps its data and its address."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._user = unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix="test-postgresql-"))
        self.address, self.port = address, free_port(address)

    def initialize(self) -> None:
        """Make its folder ready."""
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        how = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password}"]
        self._call("initdb", "-D", self._data, "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", *how)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-h {self.address} -p {self.port} -k {self.folder} {SETTINGS}"
        self._call("pg_ctl", "-D", self._data, "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it as a crash would, or more gently ("fast")."""
        self._call("pg_ctl", "-D", self._data, "-w", "-t", "60", "-m", mode, "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """While the block lasts it answers nothing and closes nothing, like a host that vanished from the network."""
        main = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(main, signal.SIGSTOP)  # first: it starts no more
        processes = [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in reversed(processes):
                os.kill(process, signal.SIGCONT)

    def url(self, database: str, password: str = PASSWORD) -> str:
        """Where one of its databases is."""
        return f"postgresql://{USER}:{password}@{self.address}:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """The same, by its Unix socket."""
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    async def create(self) -> str:
        """A new database, by its name."""
        name = f"test_{uuid.uuid4().hex}"
        await self._execute(f"CREATE DATABASE {name}")
        return name

    async def drop(self, name: str) -> None:
        """Remove it, whoever uses it."""
        await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def _call(self, name: str, *arguments: str) -> None:
        found = program(name)
        assert found is not None
        somebody: dict[str, Any] = {}
        if self._user is not None:
            somebody = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []}
        # Its output is a file: the server inherits it, and a pipe would be waited for until the server ends.
        with tempfile.TemporaryFile("w+") as output:
            ended = subprocess.run(
                [found, *arguments],
                cwd="/",
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
                **somebody,
            )
            output.seek(0)
            assert ended.returncode == 0, f"{name} failed: {output.read()}"


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def unprivileged_user() -> str | None:
    """Who runs the server: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL refuses to run as root, and there is no other user")


def running(address: str = "127.0.0.1") -> Iterator[PostgreSQL]:
    """A server for as long as a fixture lasts; on CI there has to be one."""
    missing = [name for name in ("initdb", "pg_ctl", "postgres") if program(name) is None]
    if missing:
        assert not os.environ.get("CI"), f"no PostgreSQL: {missing}"
        pytest.skip(f"no PostgreSQL on this host: {', '.join(missing)} not found")
    server = PostgreSQL(address)
    command = ["sh", "-c", AFTERWARDS, "afterwards", str(server.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", start_new_session=True):
        server.initialize()
        server.start()
        yield server
    assert not server.folder.exists()
