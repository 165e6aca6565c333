"""Times a server's health and a neighbour's run, at rest and under load (load_attacks.py)."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import machine, work
from bench.load_attacks import ATTACKS
from bench.server_process import ServerProcess

SECONDS = 3.0  # of each measurement
REST_S = 0.02  # between two requests
SETTLE_S = 1.0  # for the load to take effect, and to wear off
READY_S = 30
RATIO, WORST_MS, MEMORY_MB = 3.0, 250.0, 256.0


@dataclass
class Figures:
    """What was measured under one load."""

    health: list[float]
    run: list[float]
    memory: float  # megabytes that the server took meanwhile


class Load:
    """A server of its own, an attacker with a key, and a neighbour with another."""

    def __init__(self, scratch: Path) -> None:
        self._server = ServerProcess(scratch / "load")
        self._keys = {"admin": ""}
        self._found: dict[str, Figures | Exception] = {}

    def close(self) -> None:
        self._server.close()

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        """Return three contests, with one side for each load; a load is made once and measured for all three."""
        names = ("rest", *ATTACKS)
        return {
            "load health": {name: partial(self._health, name) for name in names},
            "load run": {name: partial(self._run, name) for name in names},
            "load memory": {name: partial(self._growth, name) for name in names},
        }

    def _health(self, name: str) -> list[float]:
        return self._figures(name).health

    def _run(self, name: str) -> list[float]:
        return self._figures(name).run

    def _growth(self, name: str) -> list[float]:
        return [self._figures(name).memory]

    def _figures(self, name: str) -> Figures:
        if name not in self._found:
            try:
                self._start()
                self._found[name] = self._rest() if name == "rest" else self._under(name)
            except Exception as problem:  # it concerns all three contests
                self._found[name] = problem
        found = self._found[name]
        if isinstance(found, Exception):
            raise found
        return found

    # --- the measurement

    def _rest(self) -> Figures:
        return self._measure(self._memory())

    def _under(self, name: str) -> Figures:
        before = self._memory()
        command = [sys.executable, "-m", "bench.load_attacks", name, str(self._server.port), self._keys["attacker"]]
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        deadline = threading.Timer(READY_S, attacker.kill)
        deadline.start()
        try:
            assert attacker.stdout is not None
            if attacker.stdout.readline() != b"ready\n":
                raise work.WrongOutput(f"the attack did not begin within {READY_S} s")
            time.sleep(SETTLE_S)
            return self._measure(before)
        finally:
            deadline.cancel()
            attacker.kill()
            attacker.wait(10)
            self._clear()

    def _measure(self, before: float) -> Figures:
        found = Figures([], [], 0.0)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found.health.append(self._timed("GET", "/v1/health", None, "ok"))
            time.sleep(REST_S)
            found.run.append(self._timed("POST", "/v1/run", {"code": work.HELLO}, work.HELLO))
            time.sleep(REST_S)
        found.memory = max(0.0, self._memory() - before)
        return found

    def _timed(self, method: str, path: str, body: object, expected: str) -> float:
        """Time a request over a connection of its own."""
        start = time.perf_counter()
        answer = self._ask(method, path, body, "neighbour")
        seconds = time.perf_counter() - start
        if expected == "ok":
            if answer.get("status") != "ok":
                raise work.WrongOutput(str(answer)[:200])
        else:
            work.check(expected, str(answer.get("stdout", answer)))
        return seconds

    def _memory(self) -> float:
        return machine.pss_mb({self._server.pid})

    # --- the server

    def _start(self) -> None:
        if not self._server.start():
            return
        self._keys["admin"] = self._server.key
        for name in ("attacker", "neighbour"):
            self._keys[name] = self._ask("POST", "/v1/keys", {"owner": name, "name": name}, "admin")["key"]
        for _ in range(5):
            self._timed("POST", "/v1/run", {"code": work.HELLO}, work.HELLO)

    def _clear(self) -> None:
        """End what the attacker has left, and wait until it is gone."""
        for box in self._ask("GET", "/v1/sandboxes?state=alive", None, "attacker")["items"]:
            self._ask("DELETE", f"/v1/sandboxes/{box['id']}", None, "attacker")
        for run in self._ask("GET", "/v1/runs?state=running", None, "attacker")["items"]:
            self._ask("POST", f"/v1/runs/{run['id']}/cancel", None, "attacker")
        time.sleep(SETTLE_S)

    def _ask(self, method: str, path: str, body: object, who: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self._keys[who]}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            text = connection.getresponse().read()
        finally:
            connection.close()
        answer: dict[str, Any] = json.loads(text or b"{}")
        return answer
