"""An engine in a process of its own, with its own settings, driven over a pipe: one JSON line per request and answer.

The engine times itself, so that the pipe is not measured.  The client below needs only the standard library, and so
works under any interpreter; the server runs under ours: `python -m bench.engine`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cloche

REPOSITORY = Path(__file__).resolve().parents[1]
IN_FLIGHT = 16
ANSWER_S = 120.0


class Engine:
    """The client; any number of threads may send requests at the same time."""

    def __init__(self, python: str, **settings: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", "bench.engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            env={**os.environ, **settings},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._lock = threading.Lock()
        self._open: dict[int, Future[dict[str, Any]]] = {}
        self._asked = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._ended = False
        self._reader.start()
        try:
            self.ask("warm_up")
        except BaseException:
            self.close()
            raise

    def ask(self, what: str, **details: Any) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("the engine's process has ended")
            self._asked += 1
            self._open[self._asked] = future
            self._requests.write(json.dumps({"id": self._asked, "what": what, **details}).encode() + b"\n")
            self._requests.flush()
        answer = future.result(ANSWER_S)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._requests.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._answers.close()

    def _read(self) -> None:
        for line in self._answers:
            answer = json.loads(line)
            self._open.pop(answer["id"]).set_result(answer)
        with self._lock:
            self._ended = True
            for future in self._open.values():
                future.set_result({"error": "the engine's process has ended"})


class Server:
    """Answers requests in the engine's process."""

    def __init__(self) -> None:
        self._sessions: dict[str, cloche.Sandbox] = {}
        self._write = threading.Lock()

    def serve(self) -> None:
        """Answer requests until the input ends."""
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            for line in sys.stdin.buffer:
                threads.submit(self._answer, json.loads(line))
        for session in self._sessions.values():
            session.close()

    def _answer(self, request: dict[str, Any]) -> None:
        number, what = request.pop("id"), request.pop("what")
        try:
            answer = getattr(self, what)(**request)
        except Exception as problem:  # the client gets the error, and goes on with something else
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        with self._write:
            sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
            sys.stdout.flush()

    def warm_up(self) -> dict[str, Any]:
        """Start the nurseries, import the libraries, and get the first use over."""
        import cloche

        cloche.warm_up()
        cloche.run("pass")
        return {"version": cloche.__version__}

    def fresh(self, code: str) -> dict[str, Any]:
        """`cloche.run`, step by step: it releases the sandbox, and we wait until the sandbox is gone."""
        from cloche.blocking.engine.place import HostPlace
        from cloche.blocking.sandbox.one_shot import checked_job
        from cloche.model.limits import Limits

        start = time.perf_counter()
        job = checked_job(code, Limits.of())
        box = HostPlace().one_shot(job)
        try:
            result = box.programs.run_program(job.program, None)
            seen = time.perf_counter()
        finally:
            box.close()
        if result.error is not None:
            raise RuntimeError(f"{result.error}: {result.stderr[-300:]}")
        return {"output": result.stdout, "run": seen - start, "teardown": time.perf_counter() - seen}

    def open(self, session: str) -> dict[str, Any]:
        import cloche

        self._sessions[session] = cloche.Sandbox(timeout=ANSWER_S)
        return {}

    def turn(self, session: str, code: str) -> dict[str, Any]:
        """Run code in a live session."""
        start = time.perf_counter()
        result = self._sessions[session].run(code)
        seconds = time.perf_counter() - start
        return {"output": result.stdout + (result.text or ""), "run": seconds}

    def close(self, session: str) -> dict[str, Any]:
        self._sessions.pop(session).close()
        return {}


if __name__ == "__main__":
    Server().serve()
