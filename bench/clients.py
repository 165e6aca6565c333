"""Measures E2B's own client with Cloche, and with a server that does nothing, which shows the client's own share."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from tests.e2b.clients import install

from bench.server import Served

SCRIPT = Path(__file__).with_name("clients_script.py")
_MADE = {"sandboxID": "sbx0", "templateID": "base", "clientID": "none", "envdVersion": "0.6.13", "envdAccessToken": "x"}
_RAN = b'{"type":"result","text":"2","is_main_result":true,"extra":{}}\n{"type":"end_of_execution"}\n'


class Clients:
    """E2B's client in processes of its own, one for each server."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._nothing: _Nothing | None = None

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        return {f"e2b {what}": {side: self._side(side, what) for side in ("cloche", "nothing")} for what in _WHAT}

    def close(self) -> None:
        for process in self._processes.values():
            process.terminate()
            process.wait(10)
        if self._nothing is not None:
            self._nothing.close()

    def _side(self, side: str, what: str) -> Callable[[], list[float]]:
        def sample() -> list[float]:
            process = self._process(side)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            times: list[float] = json.loads(process.stdout.readline())
            return times

        return sample

    def _process(self, side: str) -> subprocess.Popen[str]:
        if side not in self._processes:
            port, key = self._served.address() if side == "cloche" else (self._empty().port, "key")
            url = f"http://127.0.0.1:{port}"
            env = {**os.environ, "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": key}
            command = [str(install.python()), str(SCRIPT)]
            self._processes[side] = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        return self._processes[side]

    def _empty(self) -> _Nothing:
        self._nothing = self._nothing or _Nothing()
        return self._nothing


_WHAT = ("first", "turn", "many")


class _Nothing:
    """A server that gives every request the answer that its client expects, and does nothing."""

    def __init__(self) -> None:
        ready = threading.Event()
        self.port = 0

        async def serve() -> None:
            self._stop, loop = asyncio.Event(), asyncio.get_running_loop()
            server = await loop.create_server(_Answers, "127.0.0.1", 0)
            self.port, self._loop = server.sockets[0].getsockname()[1], loop
            ready.set()
            await self._stop.wait()
            server.close()

        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        ready.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)


class _Answers(asyncio.Protocol):
    """One connection; the length of a body tells where the next request begins, and nothing else is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, rest = self._data.partition(b"\r\n\r\n")
            size = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
            if b"\r\ntransfer-encoding: chunked" in head.lower():
                if not rest.endswith(b"0\r\n\r\n"):
                    return
                size = len(rest)
            if len(rest) < size:
                return
            self._data = rest[size:]
            self._transport.write(_answer(head.split(b" ", 2)[:2]))


def _answer(request: list[bytes]) -> bytes:
    if request[0] == b"DELETE":
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    status, body = (200, _RAN) if request[1].endswith(b"/execute") else (201, json.dumps(_MADE).encode())
    head = b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body
