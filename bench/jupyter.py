"""Jupyter's kernel, driven by jupyter_client: the comparison for sessions.

Both are installed into a folder of their own on first use, from a lock; the kernel runs under our interpreter, with the
sandboxes' libraries on its path, as every bare run does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.engine import REPOSITORY
from bench.work import CALL_S

LOCK = Path(__file__).with_name("jupyter.lock")
FOLDER = REPOSITORY / ".venv" / "lib" / "bench-jupyter"


def install() -> None:
    """Install the locked versions of jupyter_client and ipykernel into a folder of their own."""
    done = FOLDER / ".done"
    if done.exists() and done.stat().st_mtime >= LOCK.stat().st_mtime:
        return
    print("Installing Jupyter's kernel, to compare sessions with", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--only-binary", ":all:", "--target", str(FOLDER), "-r", str(LOCK)], check=True)
    done.touch()


class Kernel:
    """A live kernel, and the code that is sent to it."""

    def __init__(self, libraries: dict[str, str]) -> None:
        install()
        if str(FOLDER) not in sys.path:
            sys.path.append(str(FOLDER))
        from jupyter_client.manager import KernelManager  # type: ignore[import-not-found]

        env = {**libraries, "PYTHONPATH": f"{FOLDER}:{libraries['PYTHONPATH']}"}
        self._manager: Any = KernelManager()
        self._manager.kernel_spec.argv[:] = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self._manager.start_kernel(env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=CALL_S)

    def run(self, code: str) -> str:
        """Run code; return what it printed and displayed when the kernel is idle again."""
        ident = self._client.execute(code, allow_stdin=False)
        output = []
        while True:
            message = self._client.get_iopub_msg(timeout=CALL_S)
            if message["parent_header"].get("msg_id") != ident:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                output.append(content["text"])
            elif kind == "execute_result":
                output.append(content["data"]["text/plain"])
            elif kind == "error":
                raise RuntimeError(content["evalue"])
            elif kind == "status" and content["execution_state"] == "idle":
                break
        self._client.get_shell_msg(timeout=CALL_S)
        return "".join(output)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
