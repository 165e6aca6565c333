"""Puts everything on one port: the service, the doors, the gate in front of them, and the server that listens."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from cloche.configuration import Configuration
from cloche.doors.connections import MAX_CONNECTIONS, Connection, Messages
from cloche.doors.e2b.door import E2bDoor
from cloche.doors.gate.gate import Gate
from cloche.doors.http import app
from cloche.doors.http.fast_path import FastPath
from cloche.doors.mcp.door import McpDoor
from cloche.doors.metrics import Metrics
from cloche.doors.ports import PortDoor
from cloche.doors.routing.table import seal
from cloche.errors import Misconfigured
from cloche.service.service import Service

log = logging.getLogger("cloche.server")

BACKLOG = 1024
MAX_MESSAGE = 16 << 20  # bytes of one WebSocket message
PING_TIMEOUT_S = 120  # reading from a client stops while a server in a sandbox does not read
KEEP_ALIVE_S = 75
STOP_S = 5  # for clients to read the last answers


def application(service: Service, mcp: McpDoor) -> Gate:
    """All doors of one service, behind the gate."""
    metrics, ports = Metrics(service), PortDoor(service)
    return guarded(app.build(service, metrics, ports, mcp), service, metrics, ports)


def guarded(http: FastAPI, service: Service, metrics: Metrics, ports: PortDoor) -> Gate:
    """The gate in front of an HTTP application, whose routes are complete, and of E2B's door."""
    table = seal(http)
    return Gate(FastPath(http), table, service, metrics, ports, E2bDoor(service, ports))


async def serve(configuration: Configuration, ready: Callable[[str, Service], None]) -> None:
    """Serve until a signal stops the server; `ready` is called with the address once it takes requests."""
    listening = _listen(configuration.host, configuration.port)
    try:
        port: int = listening.getsockname()[1]
        service = await Service.open(configuration)
        mcp = McpDoor(service)
        try:
            server = _Server(service, mcp)
            task = asyncio.create_task(server.serve([listening]))
            await asyncio.wait({task, server.up}, return_when=asyncio.FIRST_COMPLETED)
            gc.collect()
            gc.freeze()  # collecting through everything that was loaded would make all requests wait
            gc.enable()
            if not task.done():
                ready(_address(configuration.host, port), service)
            await task
        finally:
            await mcp.stop()
            await service.close()
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """Uvicorn, except that sandboxes end before the last connections do."""

    def __init__(self, service: Service, mcp: McpDoor) -> None:
        super().__init__(
            uvicorn.Config(
                application(service, mcp),
                loop="uvloop",
                http=Connection,
                ws=Messages,
                ws_max_size=MAX_MESSAGE,
                ws_per_message_deflate=False,  # compression costs time and memory, and most clients are near
                ws_ping_timeout=PING_TIMEOUT_S,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._service, self._mcp = service, mcp
        # When a server in a sandbox breaks off, our answer breaks off as well; uvicorn would report it to the operator.
        logging.getLogger("uvicorn.error").addFilter(lambda record: "without completing" not in record.msg)
        service.keyring.when_revoked = self._hang_up
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.up.done():
            self.up.set_result(None)

    def _hang_up(self, key_id: str) -> None:
        """Close everything that a revoked key has open."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection | Messages):
                connection.hang_up(key_id)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Keep uvicorn from raising the signals again at the end, before everything is written to disk."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal, and let /v1/ready say so; a second signal stops at once."""
        self._service.refuse_new()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish runs first, because clients wait for them."""
        for listening in sockets or []:
            listening.close()
        await self._service.drain()
        await self._mcp.stop()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as problem:
        listening.close()
        raise Misconfigured(
            f"Cloche cannot listen on port {port} of {host}: {problem.strerror}.",
            hint="Another server may be running there. Choose another port with --port; 0 means any free port.",
        ) from None
    listening.setblocking(False)
    return listening


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def run(configuration: Configuration, ready: Callable[[str, Service], None]) -> None:
    """Run `serve` in an event loop of its own."""
    import resource

    import uvloop

    # The usual limit of 1,024 descriptors is for programs that use select(); sandboxes have limits of their own.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Sandboxes keep half of the descriptors: without a free one, a connection could not even be refused.
    Connection.at_most = min(MAX_CONNECTIONS, most // 2)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    uvloop.run(serve(configuration, ready))
