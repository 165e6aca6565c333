"""MCP over streamable HTTP: starts and stops the SDK's session manager, and passes requests to it."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.types import Receive, Scope, Send

from cloche.doors.gate.identity import caller_of
from cloche.doors.mcp.server import build
from cloche.policy.caller import Caller
from cloche.service.service import Service

IDLE_S = 1800.0  # without a request; a client that returns later starts a new conversation
MAX_CONVERSATIONS = 10_000
FLUSH_S = 2.0  # to send the last answers when the server stops


class Streamable:
    """The ASGI application of all conversations; the gate has checked host, origin and key before it is called."""

    def __init__(self, service: Service) -> None:
        self._conversations = StreamableHTTPSessionManager(
            build(service, _caller),
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # the gate has checked that
            session_idle_timeout=IDLE_S,
            max_request_body_size=service.configuration.max_body,
            max_sessions=MAX_CONVERSATIONS,
        )
        self._answering: set[object] = set()
        self._answered = asyncio.Event()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # The SSE library would cut answers off as soon as the server begins to stop; `stop` lets them finish first.
        AppStatus.enable_automatic_graceful_drain = False
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def _run(self, ready: asyncio.Event) -> None:
        # The SDK's task group must be entered and left by one task, whichever tasks call `start` and `stop`.
        async with self._conversations.run():
            ready.set()
            await self._stop.wait()

    async def stop(self) -> None:
        """Wait for the last answers to be sent, then end all conversations."""
        if self._running is None:
            return
        try:
            async with asyncio.timeout(FLUSH_S):
                while self._answering:
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            pass
        self._stop.set()
        running, self._running = self._running, None
        await running
        AppStatus.should_exit = True  # nothing else ends the streams that clients only listen to

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        # RFC 9110, 5.5: blanks around a value are not part of it; the SDK compares headers with the body.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        # With this, the SDK lets only the key that began a conversation use it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.key_id, scopes=[]))
        request = object()
        if scope["method"] == "POST":
            self._answering.add(request)
        try:
            await self._conversations.handle_request(scope, receive, send)
        finally:
            self._answering.discard(request)
            self._answered.set()


def _caller(context: ServerRequestContext[Any, Any]) -> Caller:
    assert context.request is not None
    return caller_of(context.request.scope)
