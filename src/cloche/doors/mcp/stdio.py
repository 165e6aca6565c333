"""MCP over stdio: sandboxes on this host for one client, until it disconnects."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from cloche.configuration import load
from cloche.doors.mcp.server import build
from cloche.policy.caller import ANYBODY
from cloche.service.service import Service


def serve() -> int:
    """Serve until standard input ends or a signal arrives; return the exit code."""
    return run(_serve())


async def _serve() -> int:
    with TemporaryDirectory(prefix="cloche-mcp-") as folder:
        # Nothing outlives this process, so it has its own database, even if the environment names a server's.
        settings = load({"data_dir": folder, "database_url": f"sqlite:///{Path(folder) / 'cloche.db'}"}).value
        service = await Service.open(settings)
        try:
            return await speak(build(service, lambda _: ANYBODY, only=ANYBODY))
        finally:
            await service.close()


async def speak(server: Server[Any]) -> int:
    """Serve the client on standard input until it disconnects or a signal arrives; return the exit code."""
    task = asyncio.create_task(_speak(server))
    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(number: int) -> None:
        if not signalled.done():
            signalled.set_result(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    either: set[asyncio.Future[Any]] = {task, signalled}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if signalled.done():
        return signalled.result()
    await task
    return 0


async def _speak(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def run(serving: Coroutine[Any, Any, int]) -> int:
    """Run the server to its end; return the exit code."""

    async def to_the_end() -> int:
        code = await serving
        if code:
            # The thread that reads standard input cannot be interrupted.  All cleanup is done by now.
            os._exit(code)
        return code

    return asyncio.run(to_the_end())
