"""`python -m bench.load_attacks NAME PORT KEY`: strains a server until it is terminated; says `ready` when it does.

A process of its own, so that it does not slow down the clients whose time is measured.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from typing import Any

FLOODS, READERS, WATCHERS, RUNS, STRANGERS = 10, 200, 60, 300, 2100
_FLOOD = "while True: print('x' * 10_000)"
_CHURN = "import time\nn = 0\nwhile True:\n    open('f', 'w').write(str(n)); n += 1; time.sleep(0.01)"
_ENDLESS = "import time\nwhile True: time.sleep(1)"
_BATCH = 100  # connections that are opened at a time
_COME_AGAIN = 21  # strangers in a tenth of a second: all of them in the ten seconds that a silent one is kept

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Attacker:
    """A client with a key, or without."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._open: list[Connection] = []  # nobody reads from these

    async def request(self, method: str, path: str, body: object = None, *, more: str = "") -> Connection:
        """Send a request, and read nothing of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 12)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n{more}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + data)
        return reader, writer

    async def answer(self, method: str, path: str, body: object) -> Any:
        """Send a request and return its answer."""
        reader, writer = await self.request(method, path, body)
        whole = await reader.read()
        writer.close()
        return json.loads(whole.partition(b"\r\n\r\n")[2])

    async def sandbox(self) -> str:
        return f"/v1/sandboxes/{(await self.answer('POST', '/v1/sandboxes', {}))['id']}"

    async def hold(self, count: int, opening: Callable[[], Awaitable[Connection]]) -> None:
        """Open many connections, and keep them."""
        for start in range(0, count, _BATCH):
            batch = [opening() for _ in range(min(_BATCH, count - start))]
            for opened in await asyncio.gather(*batch, return_exceptions=True):
                if not isinstance(opened, BaseException):
                    self._open.append(opened)

    # --- the attacks

    async def floods(self) -> None:
        """Sandboxes that print as much as they may, again and again."""
        places = [await self.sandbox() for _ in range(FLOODS)]

        async def flood(place: str) -> None:
            while True:
                await self.answer("POST", f"{place}/run", {"code": _FLOOD, "timeout": 60})

        for place in places:
            _keep(flood(place))

    async def readers(self) -> None:
        """Clients that follow the output of a command and read nothing of it."""
        place = await self.sandbox()
        command = await self.answer("POST", f"{place}/commands", {"command": "yes " + "x" * 1000})
        path = f"{place}/commands/{command['id']}/events"
        await self.hold(READERS, lambda: self.request("GET", path, more="Accept: text/event-stream\r\n"))

    async def watchers(self) -> None:
        """Clients that watch a folder whose files change all the time."""
        place = await self.sandbox()
        await self.request("POST", f"{place}/run", {"code": _CHURN, "timeout": 60})
        path = f"{place}/watch?path=/sandbox&recursive=true"
        await self.hold(WATCHERS, lambda: self.request("GET", path, more="Accept: text/event-stream\r\n"))

    async def waiting(self) -> None:
        """Runs that never end: some run, as many as may wait do so, and the others are refused."""
        run = {"code": _ENDLESS, "timeout": 60}
        await self.hold(RUNS, lambda: self.request("POST", "/v1/run", run))

    async def strangers(self) -> None:
        """Connections without a key, of which a part has sent half a head; those that are closed come again."""

        async def connect() -> Connection:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 12)
            if len(self._open) % 2:
                writer.write(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n")
            return reader, writer

        async def come_again() -> None:
            while True:
                await self.hold(_COME_AGAIN, connect)
                for _, writer in self._open[:_COME_AGAIN]:
                    writer.close()
                del self._open[:_COME_AGAIN]
                await asyncio.sleep(0.1)

        await self.hold(STRANGERS, connect)
        _keep(come_again())


ATTACKS = {
    "floods": f"{FLOODS} sandboxes flood their output",
    "readers": f"{READERS} readers stay silent",
    "watchers": f"{WATCHERS} watchers run",
    "waiting": f"{RUNS} endless runs of another key wait",
    "strangers": f"{STRANGERS} strangers connect",
}

_tasks: set[asyncio.Task[None]] = set()


def _keep(work: Any) -> None:
    _tasks.add(asyncio.ensure_future(work))


async def attack(name: str, port: int, key: str) -> None:
    """Begin an attack, and go on until this process is terminated."""
    attacker = Attacker(port, key)
    await getattr(attacker, name)()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(attack(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
