"""The network: connections from a sandbox with a policy, beside the same connections from the host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import cloche

NAME = "server.bench"
CONNECTIONS = 40  # in one sample
MB = 512  # in one transfer
_PIECE = bytes(1 << 20)
_DONE = b"pong\n"
# Prints the seconds of each connection with one exchange.
_CONNECT = """
import json, socket, sys, time
address = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), type=socket.SOCK_STREAM)[0]
taken = []
for _ in range({connections}):
    start = time.perf_counter()
    with socket.socket(address[0]) as connection:
        connection.connect(address[4])
        connection.sendall(b"ping\\n")
        assert connection.recv(100)
        taken.append(time.perf_counter() - start)
print(json.dumps(taken))
"""
# Prints the seconds until the first byte of the refusal of each connection.
_REFUSED = """
import json, socket, time
taken = []
for _ in range({connections}):
    address = socket.getaddrinfo("refused.bench", 80, type=socket.SOCK_STREAM)[0]
    start = time.perf_counter()
    with socket.socket(address[0]) as connection:
        connection.connect(address[4])
        connection.sendall(b"GET / HTTP/1.1\\r\\nHost: refused.bench\\r\\n\\r\\n")
        assert b"403" in connection.recv(100)
        taken.append(time.perf_counter() - start)
print(json.dumps(taken))
"""
_TRANSFER = """
import json, socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
with socket.create_connection((host, port)) as connection:
    buffer = bytearray(1 << 20)
    start = time.perf_counter()
    connection.sendall(b"send\\n")
    left = {mb} << 20
    while left:
        left -= connection.recv_into(buffer)
    print(json.dumps([{mb} * 1.048576 / (time.perf_counter() - start)]))
"""


class Network:
    """A server on this host, and sandboxes that may reach it."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._server.getsockname()[1]
        os.environ["CLOCHE_NETWORK_HOSTS"] = f"{NAME}=127.0.0.1"
        os.environ["CLOCHE_NETWORK_PRIVATE"] = "127.0.0.0/8"
        threading.Thread(target=self._serve, daemon=True).start()
        self._policy = [NAME, f"{NAME}:{self._port}"]

    def close(self) -> None:
        self._server.close()

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        """The contests and their sides."""
        return {
            "network open": {"policy": lambda: self._open(self._policy), "none": lambda: self._open(None)},
            "network connection": {
                "cloche": lambda: self._inside(_CONNECT, self._policy),
                "host": lambda: self._on_host(_CONNECT),
            },
            "network refusal": {"cloche": lambda: self._inside(_REFUSED, self._policy)},
            "network transfer": {
                "cloche": lambda: self._inside(_TRANSFER, self._policy),
                "host": lambda: self._on_host(_TRANSFER),
            },
            "network replace": {"cloche": self._replace},
        }

    def _open(self, policy: list[str] | None) -> list[float]:
        start = time.perf_counter()
        with cloche.Sandbox(network=policy) as box:
            box.commands.run("true")
            return [time.perf_counter() - start]

    def _inside(self, code: str, policy: list[str]) -> list[float]:
        with cloche.Sandbox(network=policy) as box:
            box.files.write("measure.py", _filled(code))
            done = box.commands.run(["python3", "measure.py", NAME, str(self._port)])
        return _figures(done.stdout, done.stderr)

    def _on_host(self, code: str) -> list[float]:
        argv = [sys.executable, "-c", _filled(code), "127.0.0.1", str(self._port)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return _figures(done.stdout, done.stderr)

    def _replace(self) -> list[float]:
        with cloche.Sandbox(network=self._policy) as box:
            box.commands.run("true")
            start = time.perf_counter()
            box.network.replace([NAME])
            return [time.perf_counter() - start]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        try:
            if connection.recv(100) == b"ping\n":
                connection.sendall(_DONE)
                return
            for _ in range(MB):
                connection.sendall(_PIECE)
        except OSError:
            pass  # the client has gone


def _filled(code: str) -> str:
    return code.format(connections=CONNECTIONS, mb=MB)


def _figures(output: str, errors: str) -> list[float]:
    try:
        figures: list[float] = json.loads(output)
    except ValueError:
        raise RuntimeError(f"{output[-200:]} {errors[-300:]}") from None
    return figures
