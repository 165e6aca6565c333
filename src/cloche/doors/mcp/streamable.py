"""MCP over streamable HTTP: starts and stops the SDK's session manager, and passes requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from traceback import clear_frames
from typing import Any

from mcp.server import streamable_http
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import jsonrpc_message_adapter
from sse_starlette.event import ServerSentEvent, ensure_bytes
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from cloche.doors.gate.identity import caller_of
from cloche.doors.http.problems import problem_response
from cloche.doors.json_input import LARGE_JSON, joined, parsed_json
from cloche.doors.mcp.idle_conversations import IdleConversations
from cloche.doors.mcp.server import build
from cloche.errors import ClocheError, InvalidRun
from cloche.io.tasks import LARGE, off_loop
from cloche.policy.caller import Caller
from cloche.service.service import Service

IDLE_S = 1800.0  # without a request; a client that returns later starts a new conversation
MAX_CONVERSATIONS = 10_000
MAX_MESSAGE = 4 << 20  # bytes: the SDK parses messages on the event loop
_PIECE = 1 << 20
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
            max_request_body_size=min(service.configuration.max_body, MAX_MESSAGE),
            max_sessions=MAX_CONVERSATIONS,
        )
        self._idle = IdleConversations(self._end)
        self._answering: set[object] = set()
        self._answered = asyncio.Event()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # The SSE library would cut answers off as soon as the server begins to stop; `stop` lets them finish first.
        AppStatus.enable_automatic_graceful_drain = False
        ServerSentEvent._LINE_SEP_EXPR = _LineBreaks()  # type: ignore[assignment]
        streamable_http.EventSourceResponse = EventStream  # type: ignore[attr-defined]
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
        scope["user"] = _user(caller.key_id)
        request = object()
        if scope["method"] == "POST":
            self._answering.add(request)
            try:
                receive = await _checked(receive)
            except ClocheError as problem:
                self._answering.discard(request)
                await problem_response(problem)(scope, receive, send)
                return
        try:
            async with self._idle.used(scope, send, caller.key_id) as noticing:
                await self._conversations.handle_request(scope, receive, noticing)
        finally:
            self._answering.discard(request)
            self._answered.set()

    async def _end(self, key_id: str, conversation: str) -> None:
        """End a conversation as its client would."""
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "DELETE",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(b"mcp-session-id", conversation.encode())],
            "user": _user(key_id),
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            pass

        await self._conversations.handle_request(scope, receive, send)


def _user(key_id: str) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token="", client_id=key_id, scopes=[]))


async def _checked(receive: Receive) -> Receive:
    """Read the message as other doors read JSON, and return a `receive` that repeats it for the SDK.

    The SDK's answer to a message that is not JSON-RPC would contain all of it, several times.
    """
    message = await receive()
    parts = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
        message = await receive()
    body = await joined(parts)
    try:
        await off_loop(
            len(body), lambda: jsonrpc_message_adapter.validate_python(parsed_json(body), by_name=False), LARGE_JSON
        )
    except ValueError:
        if len(body) >= LARGE:
            raise InvalidRun("The message is not JSON-RPC.", hint="Send one message of the protocol.") from None
    waiting = [message]
    if message["type"] == "http.request":
        pieces = [body[start : start + _PIECE] for start in range(0, len(body) or 1, _PIECE)]
        waiting = [{"type": "http.request", "body": one, "more_body": True} for one in pieces]
        waiting[-1]["more_body"] = False
    waiting.reverse()

    async def repeated() -> Message:
        if len(waiting) > 1:
            await asyncio.sleep(0)  # the SDK copies each piece on the event loop
        return waiting.pop() if waiting else await receive()

    return repeated


class _LineBreaks:
    """Stands in for the SSE library's pattern, which takes milliseconds to find no line break in a long JSON text."""

    _pattern = ServerSentEvent._LINE_SEP_EXPR

    def split(self, text: str) -> list[str]:
        return self._pattern.split(text) if "\n" in text or "\r" in text else [text]

    def sub(self, new: str, text: str) -> str:
        return self._pattern.sub(new, text)


class EventStream(EventSourceResponse):
    """Keeps an answer once, as bytes, while it is sent, and gives it up as soon as its client has left.

    The error of a cancelled task is part of a cycle, and its frames have the whole answer: they would stay until
    Python's collector looks at everything, which seldom happens.
    """

    async def _stream_response(self, send: Send) -> None:
        self.body_iterator = self._encoded(self.body_iterator)
        try:
            await super()._stream_response(send)
        except BaseException as problem:
            clear_frames(problem.__traceback__)
            raise

    async def _encoded(self, events: AsyncIterable[Any]) -> AsyncIterator[bytes]:
        async for event in events:
            encoded = [ensure_bytes(event, self.sep)]
            del event
            yield encoded.pop()


def _caller(context: ServerRequestContext[Any, Any]) -> Caller:
    assert context.request is not None
    return caller_of(context.request.scope)
