"""Passes requests on to servers inside sandboxes, by a token in the address or with a key (docs/ports.md).

Such a server is as little trusted as the code in the sandbox.  With a token it has its own origin (`TOKEN.localhost`),
so its pages cannot touch ours; below a path of our origin, its pages get an opaque origin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import escape

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from cloche.doors.forward.address import ServerAddress
from cloche.doors.forward.headers import inward
from cloche.doors.forward.http import Exchange
from cloche.doors.forward.websocket import Relay, Tunnel
from cloche.doors.gate.cookies import COOKIE
from cloche.doors.http.problems import RequestRefused, problem_response
from cloche.doors.sockets import Door, Socket
from cloche.doors.visitors import show_key
from cloche.errors import ClocheError
from cloche.policy.caller import Caller
from cloche.service.ports import Grant, MeteredConnection, NotListening
from cloche.service.service import Service

SendProblem = Callable[[ClocheError, Scope, Receive, Send], Awaitable[None]]
_PASSIVE = frozenset(("", "document", "empty", "iframe", "frame", "image", "audio", "video", "font", "track"))
_PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<body style="font:16px system-ui;max-width:40em;margin:4em auto;padding:0 1em"><h1>{title}</h1><p>{hint}</p>"""
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class PortTarget:
    """A port of a sandbox, and the caller on whose behalf it is reached."""

    caller: Caller
    sandbox: str
    port: int


class PortDoor:
    """Passes requests, WebSockets and tunnels on to servers inside sandboxes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def url(self, grant: Grant, scope: Scope) -> str:
        """Return the address of a port's own origin, with the scheme and the port of the request."""
        return f"{self.origin(scope, grant.token)}/"

    def origin(self, scope: Scope, name: str) -> str:
        """Return the origin of a name below the domain of ports, with the scheme and the port of the request."""
        host = Headers(scope=scope).get("host", "")
        _, separator, number = host.rpartition(":")
        suffix = f":{number}" if separator and number.isdecimal() else ""
        return f"{_scheme(scope)}://{name}.{self._service.configuration.ports_domain}{suffix}"

    async def by_token(self, scope: Scope, receive: Receive, send: Send, token: str, prefix: str = "") -> None:
        """Pass on a request with a token in its host name, or at the start of its path (`prefix`)."""
        grant = self._service.ports.granted(token)
        if grant is None:
            problem = RequestRefused(
                404,
                "gone",
                "There is nothing at this address.",
                "The address may have expired, or its sandbox may have ended: request a new address.",
            )
            await _send_problem(problem, scope, receive, send)
            return
        raw = _raw_path(scope)
        if prefix and raw == prefix.encode():
            await RedirectResponse(f"{prefix}/", 307)(scope, receive, send)
            return
        path = raw.removeprefix(prefix.encode()) if prefix else raw
        place = PortTarget(grant.caller, grant.sandbox, grant.port)
        await self.reach(scope, receive, send, place, prefix, path, needs_key=False)

    async def reach(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        place: PortTarget,
        prefix: str,
        path: bytes,
        *,
        needs_key: bool,
        mask: str = "",
        tell: SendProblem | None = None,
    ) -> None:
        """Pass a request or a WebSocket on to a server; `tell` sends problems in the form of another API."""
        show_key(scope, place.caller.key_id)
        scope.setdefault("state", {})["streams"] = True  # the two programs agree on the pace of the body
        # A visitor has no key of its own; the connection ends with the key that let the visitor in (connections.py).
        scope.setdefault("state", {})["acting_key"] = place.caller.key_id
        headers = Headers(scope=scope)
        address = ServerAddress(place.port, _scheme(scope), headers.get("host", "localhost"), prefix, needs_key, mask)
        query = scope["query_string"]
        target = (path if path.startswith(b"/") else b"/" + path) + (b"?" + query if query else b"")
        inner = inward(scope, address, COOKIE, lambda secret: self._service.keyring.find(secret) is not None)

        async def relay(socket: Socket) -> None:
            async with self._connected(place) as connection:
                await Relay(socket, connection, address).carry_out(target, inner)

        if scope["type"] == "websocket":
            await Door(relay)(scope, receive, send)
            return
        try:
            if scope["method"] in ("CONNECT", "TRACE"):
                raise RequestRefused(405, "invalid", "CONNECT and TRACE are not passed on to servers in sandboxes.")
            if address.is_shared and _is_for_our_page(headers):
                raise RequestRefused(
                    403, "forbidden", "Pages of this server may not load content from a server in a sandbox."
                )
            async with self._connected(place) as connection:
                await Exchange(scope, receive, send, connection, address).carry_out(target, inner)
        except ClocheError as problem:
            await (tell or _send_problem)(problem, scope, receive, send)

    async def tunnel(self, socket: Socket, place: PortTarget) -> None:
        """Carry raw bytes to and from a server."""
        async with self._connected(place) as connection:
            await socket.accept()
            await Tunnel(socket, connection).carry_out()

    @asynccontextmanager
    async def _connected(self, place: PortTarget) -> AsyncIterator[MeteredConnection]:
        try:
            async with self._service.ports.connect(place.caller, place.sandbox, place.port) as connection:
                yield connection
        except NotListening as problem:
            raise RequestRefused(502, "failed", problem.message, problem.hint) from None


def _is_for_our_page(headers: Headers) -> bool:
    """Return whether a page of our origin would load this.  Pages of the server have an opaque origin, and say so."""
    same = headers.get("sec-fetch-site") == "same-origin"
    return "service-worker" in headers or (same and headers.get("sec-fetch-dest", "") not in _PASSIVE)


def _scheme(scope: Scope) -> str:
    return "https" if scope["scheme"] in ("https", "wss") else "http"


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


async def _send_problem(problem: ClocheError, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a problem as a page for people or as JSON for programs."""
    response: Response = problem_response(problem)
    if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
        page = _PAGE.format(title=escape(problem.message), hint=escape(problem.hint))
        response = HTMLResponse(page, response.status_code)
    response.headers.update(_PAGE_HEADERS)
    await response(scope, receive, send)
