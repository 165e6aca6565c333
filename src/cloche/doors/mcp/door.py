"""Serves /mcp, and loads the MCP SDK only when the first client connects.

The SDK would be a third of the code that a server loads at its start, and most servers never have an MCP client.
"""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from cloche.service.service import Service

if TYPE_CHECKING:
    from cloche.doors.mcp.streamable import Streamable

PATH = "/mcp"


class McpDoor:
    """The ASGI application behind /mcp; the gate has checked host, origin and key before it is called."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._opening: asyncio.Task[Streamable] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        conversations = await asyncio.shield(self._opening)  # a client that leaves must not cancel the loading
        await conversations(scope, receive, send)

    async def _open(self) -> Streamable:
        try:
            await asyncio.to_thread(import_module, "cloche.doors.mcp.streamable")
            from cloche.doors.mcp.streamable import Streamable

            gc.freeze()  # as server.py does at the start: the collector need not scan modules that stay loaded
            conversations = Streamable(self._service)
            await conversations.start()
        except BaseException:
            self._opening = None
            raise
        return conversations

    async def stop(self) -> None:
        """Wait for the last answers to be sent, then end all conversations."""
        if self._opening is not None:
            await (await self._opening).stop()
