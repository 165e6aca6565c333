"""MCP over stdio for a remote server: passes every request on to its /mcp, with the key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from cloche import __version__
from cloche.doors.mcp.server import INSTRUCTIONS
from cloche.doors.mcp.stdio import run, speak
from cloche.errors import ClocheError, Misconfigured, Refused

log = logging.getLogger("cloche.mcp")

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]
_TIMES = httpx2.Timeout(30.0, read=None)  # code may be silent for as long as it likes
_FORGOTTEN = ("Session not found", "Session terminated")  # the server was restarted, or the session was idle too long


class Remote:
    """The remote server.  Connects on the first request, and reconnects when the connection is lost."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/").removesuffix("/mcp")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._connecting = asyncio.Lock()
        self._client: Client | None = None
        self._holder: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()

    async def ask(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Pass a request on.  If the server has forgotten our session, it has done nothing: reconnect and try again."""
        try:
            try:
                return await request(await self._connected())
            except MCPError as problem:
                if problem.message not in _FORGOTTEN:
                    raise
                await self.close()
                return await request(await self._connected())
        except ClocheError as problem:
            raise MCPError(types.INTERNAL_ERROR, str(problem)) from None

    async def close(self) -> None:
        """Disconnect; the server then ends the sandbox of this conversation."""
        self._leave.set()
        if self._holder is not None:
            await asyncio.wait({self._holder}, timeout=10)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                await self._check()
                ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
                self._leave = asyncio.Event()
                self._holder = asyncio.create_task(self._hold(ready, self._leave))
                self._client = await ready
            return self._client

    async def _check(self) -> None:
        """Explain why the server cannot be used; the SDK's own errors do not."""
        try:
            async with httpx2.AsyncClient(headers=self._headers, timeout=_TIMES) as http:
                status = (await http.get(f"{self.url}/v1/version", timeout=10)).status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise Misconfigured(
                f"No Cloche server answers at {self.url} ({type(problem).__name__}).",
                hint="Start it with `cloche serve`, or correct --url (CLOCHE_URL).",
            ) from None
        if status in (401, 403):
            raise Refused(
                f"The server at {self.url} does not accept the key.", hint="Set CLOCHE_API_KEY to a valid key."
            )
        if status >= 400:
            raise Misconfigured(
                f"{self.url} is not a Cloche server (it answered with status {status}).", "Correct --url."
            )

    async def _hold(self, ready: asyncio.Future[Client], leave: asyncio.Event) -> None:
        """Keep the connection open until `leave` is set or it breaks; the SDK wants one task to open and close it."""
        try:
            async with (
                httpx2.AsyncClient(headers=self._headers, timeout=_TIMES) as http,
                Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode="legacy") as client,
            ):
                ready.set_result(client)
                await leave.wait()
        except Exception as problem:
            log.debug("the connection to %s broke", self.url, exc_info=True)
            if not ready.done():
                ready.set_exception(
                    Refused(f"The server at {self.url} refused the connection: {problem}.", hint="Look at its log.")
                )
        finally:
            self._client = None


def serve(url: str, key: str) -> int:
    """Serve until standard input ends; return the exit code."""
    return run(_serve(url, key))


async def _serve(url: str, key: str) -> int:
    remote = Remote(url, key)
    try:
        return await speak(_server(remote))
    finally:
        await remote.close()


def _server(remote: Remote) -> Server[Any]:
    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        return await remote.ask(lambda client: client.list_tools())

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async def pass_on(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total, message)

        callback = pass_on if context.meta is not None and "progress_token" in context.meta else None
        return await remote.ask(
            lambda client: client.call_tool(params.name, params.arguments, progress_callback=callback)
        )

    async def list_resources(_: Context, __: object) -> types.ListResourcesResult:
        return await remote.ask(lambda client: client.list_resources())

    async def list_templates(_: Context, __: object) -> types.ListResourceTemplatesResult:
        return await remote.ask(lambda client: client.list_resource_templates())

    async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await remote.ask(lambda client: client.read_resource(str(params.uri)))

    return Server(
        "cloche",
        version=__version__,
        title="Cloche",
        description="Runs code in isolated sandboxes.",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
