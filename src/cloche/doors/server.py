"""Puts everything on one port: the service, the doors, the gate in front of them, and the server that listens."""

from __future__ import annotations

import asyncio
import gc
import logging
import mimetypes
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import FrameType

import uvicorn
from fastapi import FastAPI

from cloche.configuration import Configuration
from cloche.doors.connections import Connection
from cloche.doors.e2b.door import E2bDoor
from cloche.doors.gate.gate import Gate
from cloche.doors.http import app
from cloche.doors.http.fast_path import FastPath
from cloche.doors.listener import Listener
from cloche.doors.loop_watch import LoopWatch
from cloche.doors.mcp.door import McpDoor
from cloche.doors.messages import Messages
from cloche.doors.metrics import Metrics
from cloche.doors.ports import PortDoor
from cloche.doors.routing.table import seal
from cloche.doors.visitors import MAX_CONNECTIONS, Visitors
from cloche.errors import Misconfigured
from cloche.service import allocator
from cloche.service.service import Service

log = logging.getLogger("cloche.server")

MAX_NOT_SENT = 128 << 10  # bytes that wait in the kernel for one client
MAX_MESSAGE = 16 << 20  # bytes of one WebSocket message
PING_TIMEOUT_S = 120  # reading from a client stops while a server in a sandbox does not read
KEEP_ALIVE_S = 75
_LATE = ("cloche.engine.checkpoints", "cloche.engine.files", "cloche.engine.sessions", "cloche.results.for_model")
STOP_S = 5  # for clients to read the last answers


def application(service: Service, mcp: McpDoor, metrics: Metrics | None = None) -> Gate:
    """All doors of one service, behind the gate."""
    metrics, ports = metrics or Metrics(service), PortDoor(service)
    return guarded(app.build(service, metrics, ports, mcp), service, metrics, ports)


def guarded(http: FastAPI, service: Service, metrics: Metrics, ports: PortDoor) -> Gate:
    """The gate in front of an HTTP application, whose routes are complete, and of E2B's door."""
    table = seal(http)
    return Gate(FastPath(http), table, service, metrics, ports, E2bDoor(service, ports))


async def serve(configuration: Configuration, ready: Callable[[str, Service], None]) -> None:
    """Serve until a signal stops the server.

    `ready` is called with the address once the server takes requests and a sandbox was tried out; if that failed, as
    `service.trouble` says, it is called again when a sandbox works.
    """
    listening = _listen(configuration.host, configuration.port)
    try:
        port: int = listening.getsockname()[1]
        service = await Service.open(configuration)
        service.networks.close_port(port)
        mcp = McpDoor(service)
        try:
            server = _Server(service, mcp, _visitors())
            task = asyncio.create_task(server.serve([listening]))
            address = _address(configuration.host, port)
            telling = asyncio.create_task(_tell(service, lambda: ready(address, service)))
            await asyncio.wait({task, server.up}, return_when=asyncio.FIRST_COMPLETED)
            gc.collect()
            gc.freeze()  # collecting through everything that was loaded would make all requests wait
            gc.enable()
            server.watch()
            if not task.done():
                await asyncio.to_thread(_import_late)
            await task
            telling.cancel()
        finally:
            await mcp.stop()
            await service.close()
    finally:
        listening.close()


async def _tell(service: Service, ready: Callable[[], None]) -> None:
    await service.tried_out()
    ready()
    if service.trouble is not None:
        await service.works()
        ready()


def _import_late() -> None:
    """Import what the first requests would import on the event loop; the server does not wait for it at its start."""
    for name in _LATE:
        import_module(name)
    mimetypes.init()  # reads the host's list of file types


class _Server(uvicorn.Server):
    """Uvicorn, except that sandboxes end before the last connections do."""

    def __init__(self, service: Service, mcp: McpDoor, visitors: Visitors) -> None:
        self._metrics = Metrics(service)
        super().__init__(
            uvicorn.Config(
                application(service, mcp, self._metrics),
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
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._service, self._mcp, self._visitors = service, mcp, visitors
        logging.getLogger("uvicorn.error").addFilter(_concerns_operator)
        self._watch: LoopWatch | None = None
        service.keyring.when_revoked = self._hang_up
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn would, but with our own listeners."""
        connection = partial(
            Connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            visitors=self._visitors,
        )
        self._listeners = [Listener(each, connection, self._visitors.make_room) for each in sockets or []]
        self.servers, self.started = [], True
        if not self.up.done():
            self.up.set_result(None)

    def watch(self) -> None:
        """Measure from now on how long the event loop is held."""
        self._watch = LoopWatch(self._metrics.loop_held)

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
        for listener in self._listeners:
            listener.close()
        if self._watch is not None:
            self._watch.stop()
        await self._service.drain()
        await self._mcp.stop()
        for listener in self._listeners:
            await listener.wait_closed()
        await super().shutdown(sockets)


def _concerns_operator(record: logging.LogRecord) -> bool:
    """Drop lines of uvicorn's about what clients send: strangers could fill the log with them.

    When a server in a sandbox breaks off, our answer breaks off as well; uvicorn would report that, too.
    """
    return not any(words in str(record.msg) for words in ("without completing", "Invalid HTTP", "Unsupported upgrade"))


def _visitors() -> Visitors:
    """Leave half of the descriptors to sandboxes, and the last ones free in any case."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Visitors(min(MAX_CONNECTIONS, descriptors // 2), descriptors - min(descriptors // 16, 128))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # The kernel would take megabytes for each client that reads nothing.  Connections inherit this.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_NOT_SENT)
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
    import uvloop

    # The usual limit of 1,024 descriptors is for programs that use select(); sandboxes have limits of their own.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0o077)  # whatever the server writes is its own; sandboxes set theirs
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    allocator.configure()
    uvloop.run(serve(configuration, ready))
