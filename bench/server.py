"""Measures the server: the same work over HTTP and WebSocket, beside the embedded call in this process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

import cloche
from bench import machine, work
from bench.server_process import ServerProcess

TURN = "x += 1; x"
TURNS = 20  # per sample
BURST, CLIENTS = 200, 16
UPLOAD_MB = 200
PIECE = bytes(1 << 20)


class Served:
    """A server in a process of its own, and plain clients that cost little themselves."""

    def __init__(self, scratch: Path) -> None:
        self._server = ServerProcess(scratch / "server")
        self._local = threading.local()
        self._boxes: dict[str, str] = {}
        self._embedded: cloche.Sandbox | None = None
        self._socket: ClientConnection | None = None

    def close(self) -> None:
        if self._embedded is not None:
            self._embedded.close()
        if self._socket is not None:
            self._socket.close()
        self._server.close()

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        return {
            "served run": {"http": self._run, "embedded": _run_embedded},
            "served turn": {"http": self._turns, "websocket": self._turns_websocket, "embedded": self._turns_embedded},
            "served burst": {"http": self._burst, "embedded": _burst_embedded},
            "served files": {"upload": self._upload, "download": self._download, "memory": self._memory},
        }

    def address(self) -> tuple[int, str]:
        """Return the server's port and key, for other clients."""
        self._start()
        return self._server.port, self._server.key

    # --- the server and its plain client

    def _start(self) -> None:
        if not self._server.start():
            return
        for code in (work.HELLO, work.PANDAS):
            self._post("/v1/run", {"code": code})

    def _connection(self) -> http.client.HTTPConnection:
        self._start()
        if not hasattr(self._local, "connection"):
            connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=120)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._local.connection = connection
        found: http.client.HTTPConnection = self._local.connection
        return found

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self._server.key}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        if answer.get("error"):
            raise work.WrongOutput(str(answer["error"])[:200])
        return answer

    def _box(self, name: str) -> str:
        self._start()
        if name not in self._boxes:
            self._boxes[name] = self._post("/v1/sandboxes", {"ttl": 3600, "memory": "2G"})["id"]
            self._post(f"/v1/sandboxes/{self._boxes[name]}/run", {"code": "x = 0"})
        return self._boxes[name]

    # --- the measurements

    def _run(self) -> list[float]:
        self._start()
        start = time.perf_counter()
        answer = self._post("/v1/run", {"code": work.HELLO})
        seconds = time.perf_counter() - start
        work.check(work.HELLO, answer["stdout"])
        return [seconds]

    def _turns(self) -> list[float]:
        path = f"/v1/sandboxes/{self._box('turn')}/run"
        return [_timed(lambda: self._post(path, {"code": TURN})) for _ in range(TURNS)]

    def _turns_websocket(self) -> list[float]:
        box = self._box("turn")
        if self._socket is None:
            headers = {"Authorization": f"Bearer {self._server.key}"}
            self._socket = connect(f"ws://127.0.0.1:{self._server.port}/", additional_headers=headers, compression=None)
        message = json.dumps({"type": "execute", "code": TURN, "language": "python", "session": box})

        def turn() -> None:
            assert self._socket is not None
            self._socket.send(message)
            while True:
                answer = json.loads(self._socket.recv())
                if answer["type"] == "error":
                    raise work.WrongOutput(answer["message"])
                if answer["type"] == "result":
                    return

        return [_timed(turn) for _ in range(TURNS)]

    def _turns_embedded(self) -> list[float]:
        if self._embedded is None:
            self._embedded = cloche.Sandbox(timeout=120)
            self._embedded.run("x = 0")
        box = self._embedded
        return [_timed(lambda: box.run(TURN)) for _ in range(TURNS)]

    def _burst(self) -> list[float]:
        self._start()

        def one(_: int) -> None:
            work.check(work.HELLO, self._post("/v1/run", {"code": work.HELLO})["stdout"])

        return _rate(one)

    def _upload(self) -> list[float]:
        path = f"/v1/sandboxes/{self._box('files')}/files/big.bin"
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self._server.key}", "Content-Length": str(UPLOAD_MB << 20)}
        start = time.perf_counter()
        connection.request("PUT", path, _pieces(), headers)
        answer = json.loads(connection.getresponse().read())
        seconds = time.perf_counter() - start
        if answer.get("size") != UPLOAD_MB << 20:
            raise work.WrongOutput(str(answer)[:200])
        return [UPLOAD_MB / seconds]

    def _download(self) -> list[float]:
        if "files" not in self._boxes:
            self._upload()
        connection = self._connection()
        path = f"/v1/sandboxes/{self._boxes['files']}/files/big.bin"
        start, size = time.perf_counter(), 0
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._server.key}"})
        answer = connection.getresponse()
        buffer = bytearray(1 << 20)
        while count := answer.readinto(buffer):
            size += count
        seconds = time.perf_counter() - start
        if size != UPLOAD_MB << 20:
            raise work.WrongOutput(f"{size} bytes came")
        return [UPLOAD_MB / seconds]

    def _memory(self) -> list[float]:
        """Measure how many megabytes more the server uses after both."""
        self._upload()
        before = machine.pss_mb({self._server.pid})
        self._upload()
        self._download()
        return [machine.pss_mb({self._server.pid}) - before]


def _run_embedded() -> list[float]:
    start = time.perf_counter()
    result = cloche.run(work.HELLO)
    seconds = time.perf_counter() - start
    work.check(work.HELLO, result.stdout)
    return [seconds]


def _burst_embedded() -> list[float]:
    def one(_: int) -> None:
        work.check(work.HELLO, cloche.run(work.HELLO).stdout)

    return _rate(one)


def _rate(one: Callable[[int], None]) -> list[float]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(one, range(CLIENTS)))
        start = time.perf_counter()
        list(pool.map(one, range(BURST)))
        return [BURST / (time.perf_counter() - start)]


def _pieces() -> Iterator[bytes]:
    for _ in range(UPLOAD_MB):
        yield PIECE


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
