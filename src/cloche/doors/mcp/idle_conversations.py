"""Bounds the conversations that a key leaves open without using them.

Most clients never end a conversation, and each costs memory and the time of the garbage collector, which everybody
waits for.  One that has a request under way is bounded by its connection; of the others, a key keeps the latest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.types import Message, Scope, Send

MOST = 100  # of one key
_ID = b"mcp-session-id"
_GONE = 404


class IdleConversations:
    """The conversations of each key that no request uses now, the one that was used least recently first."""

    def __init__(self, end: Callable[[str, str], Awaitable[None]]) -> None:
        self._end = end  # called with a key's id and the id of its conversation
        self._keys: dict[str, str] = {}  # by the id of the conversation
        self._idle: dict[str, dict[str, None]] = {}  # by key
        self._requests: Counter[str] = Counter()  # under way, by the id of the conversation
        self._ending: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def used(self, scope: Scope, send: Send, key: str) -> AsyncIterator[Send]:
        """Follow one request; yields a `send` that notices which conversation it begins, uses or ends."""
        named = _id(scope["headers"])
        identity = named if self._keys.get(named) == key else ""
        if identity:
            self._begin(key, identity)

        async def noticing(message: Message) -> None:
            nonlocal identity
            if message["type"] == "http.response.start":
                status, given = message["status"], _id(message.get("headers", ()))
                if identity and (status == _GONE or (scope["method"] == "DELETE" and status < 400)):
                    self._keys.pop(identity, None)
                elif not named and given and status < 400:
                    identity = given
                    self._keys[identity] = key
                    self._begin(key, identity)
            await send(message)

        try:
            yield noticing
        finally:
            if identity:
                self._finish(key, identity)

    def _begin(self, key: str, identity: str) -> None:
        self._requests[identity] += 1
        self._idle.get(key, {}).pop(identity, None)

    def _finish(self, key: str, identity: str) -> None:
        self._requests[identity] -= 1
        if self._requests[identity]:
            return
        del self._requests[identity]
        if identity not in self._keys:
            return
        idle = self._idle.setdefault(key, {})
        idle[identity] = None
        while len(idle) > MOST:
            oldest = next(iter(idle))
            del idle[oldest], self._keys[oldest]
            # Not awaited here, since the request that is over may have been cancelled.
            ending = asyncio.ensure_future(self._end(key, oldest))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


def _id(headers: list[tuple[bytes, bytes]]) -> str:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _ID), "")
