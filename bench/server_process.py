"""A server in a process of its own, on a free port and an empty folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path


class ServerProcess:
    """`cloche serve`, once `start` has been called."""

    def __init__(self, folder: Path) -> None:
        self.port, self.key = 0, ""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> bool:
        """Start the server, and wait until it answers; False if it runs already."""
        if self._process is not None:
            return False
        command = [sys.executable, "-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().decode().strip().rpartition(":")[2])
        threading.Thread(target=self._process.stdout.read, daemon=True).start()
        self.key = (self._folder / "key").read_text().strip()
        return True

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
