"""Adds the headers that every answer has, and counts the answer."""

from __future__ import annotations

import logging
from time import monotonic

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

from cloche.doors.metrics import Metrics

log = logging.getLogger("cloche.http")

_SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
# For pages of the sites that the operator allows, and no others.  Their browsers send no cookies: such a page needs a
# key of its own.
PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "Authorization, X-API-Key, Content-Type, Accept, Range, If-None-Match, If-Range, "
    "Last-Event-ID, Idempotency-Key, Mcp-Session-Id, Mcp-Protocol-Version",
    "access-control-allow-private-network": "true",
    "access-control-max-age": "600",
}
_EXPOSED = "Cloche-Run, ETag, Content-Range, Content-Disposition, Retry-After, Mcp-Session-Id"


class Sending:
    """Wraps `send` and notes whether the answer has begun, or the WebSocket was accepted."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


class Answering:
    """Wraps `send` for one request."""

    def __init__(self, send: Send, metrics: Metrics, scope: Scope) -> None:
        self._send, self._metrics, self._scope, self._begin = send, metrics, scope, monotonic()
        self.origin = ""  # of a page of another site that the operator allows

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SAFE.items():
                headers.setdefault(name, value)
            if self.origin:
                headers["access-control-allow-origin"] = self.origin
                headers["access-control-expose-headers"] = _EXPOSED
                headers.add_vary_header("Origin")
            route = getattr(self._scope.get("route"), "path", "")
            took = monotonic() - self._begin
            self._metrics.answered(self._scope["method"], route, message["status"], took)
            log.debug("%s %s %d %.1f ms", self._scope["method"], route, message["status"], took * 1000)
        await self._send(message)
