"""Servers inside sandboxes, reached through us: by a token in the address, or with a key (docs/ports.md).

What such a server says is as little trusted as the code that wrote it.  With a token it has an origin of its own
(`TOKEN.localhost`), so its pages can do nothing to ours; below a path of our origin its pages have no origin at all.
"""

from __future__ import annotations

from base64 import b32encode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import escape
from secrets import token_bytes
from time import time

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from cloche.doors.forward.headers import inward
from cloche.doors.forward.http import Exchange
from cloche.doors.forward.way import Way
from cloche.doors.forward.websocket import Relay, Tunnel
from cloche.doors.http.problems import Ended, Unwelcome, answer
from cloche.doors.sockets import Door, Socket
from cloche.errors import ClocheError, Gone, Refused
from cloche.policy.refusals import Busy
from cloche.sandbox.ports import AsyncConnection
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.held import Held
from cloche.service.service import Service

Teller = Callable[[ClocheError, Scope, Receive, Send], Awaitable[None]]
COOKIE = "cloche_session"  # as in gate.py
MAX_CONNECTIONS = 100  # to the servers of one sandbox
MAX_TOKENS = 200  # of one sandbox
START_S = 2.0  # that we wait for a server that is just being started
_TOKEN_BYTES = 20  # 160 bits, 32 characters
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
class Grant:
    """What a token is good for."""

    token: str
    held: Held
    port: int
    until: float | None
    """None: for as long as the sandbox lives."""

    @property
    def expires(self) -> float:
        """When it ends at the latest."""
        lifetime = self.held.record.expires or float("inf")
        return lifetime if self.until is None else min(self.until, lifetime)

    @property
    def is_good(self) -> bool:
        """Does it still open anything?"""
        return is_alive(self.held) and time() < self.expires


class Ports:
    """All ways to servers in sandboxes; as an application, those by token."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._grants: dict[str, Grant] = {}
        self._open: Counter[str] = Counter()  # connections, by sandbox

    def grant(self, held: Held, port: int, ttl: float | None) -> Grant:
        """A token for a port of a sandbox."""
        self._grants = {token: grant for token, grant in self._grants.items() if grant.is_good}
        if sum(grant.held is held for grant in self._grants.values()) >= MAX_TOKENS:
            raise Refused(f"This sandbox has {MAX_TOKENS} addresses already.", hint="Use one of them.")
        token = b32encode(token_bytes(_TOKEN_BYTES)).decode().lower()
        grant = self._grants[token] = Grant(token, held, port, None if ttl is None else time() + ttl)
        return grant

    def url(self, grant: Grant, scope: Scope) -> str:
        """The address of an origin of its own, as the one who asked for it can reach it."""
        host = Headers(scope=scope).get("host", "")
        _, separator, number = host.rpartition(":")
        suffix = f":{number}" if separator and number.isdecimal() else ""
        return f"{_scheme(scope)}://{grant.token}.{self._service.configuration.ports_domain}{suffix}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what came by a token: in the name of the host, or in the path."""
        state = scope["state"]
        grant = self._grants.get(state["ports_token"])
        prefix: str = state.get("ports_prefix", "")
        if grant is None or not grant.is_good:
            problem = Unwelcome(
                404,
                "gone",
                "There is nothing at this address, or not any more.",
                "It ended with its sandbox, or its time was up: ask for a new one.",
            )
            await _tell(problem, scope, receive, send)
            return
        raw = _raw_path(scope)
        if prefix and raw == prefix.encode():
            await RedirectResponse(f"{prefix}/", 307)(scope, receive, send)
            return
        path = raw.removeprefix(prefix.encode()) if prefix else raw
        await self.reach(scope, receive, send, grant.held, grant.port, prefix, path, needs_key=False)

    async def reach(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        held: Held,
        port: int,
        prefix: str,
        path: bytes,
        *,
        needs_key: bool,
        mask: str = "",
        tell: Teller | None = None,
    ) -> None:
        """Pass a request or a WebSocket on to a server; `tell` says what is wrong in another door's words."""
        headers = Headers(scope=scope)
        way = Way(port, _scheme(scope), headers.get("host", "localhost"), prefix, needs_key, mask)
        query = scope["query_string"]
        target = (path if path.startswith(b"/") else b"/" + path) + (b"?" + query if query else b"")
        inner = inward(scope, way, COOKIE, lambda secret: self._service.keyring.find(secret) is not None)

        async def relay(socket: Socket) -> None:
            async with self.connected(held, port) as connection:
                passing = Relay(socket, connection, way)
                try:
                    await passing.carry_out(target, inner)
                finally:
                    held.meter.use(0.0, passing.moved)

        if scope["type"] == "websocket":
            await Door(relay)(scope, receive, send)
            return
        try:
            if scope["method"] in ("CONNECT", "TRACE"):
                raise Unwelcome(405, "invalid", "This method is not passed on.")
            if way.is_shared and _is_part_of_ours(headers):
                raise Unwelcome(403, "forbidden", "Our own pages use nothing of a server in a sandbox.")
            async with self.connected(held, port) as connection:
                exchange = Exchange(scope, receive, send, connection, way)
                try:
                    await exchange.carry_out(target, inner)
                finally:
                    held.meter.use(0.0, exchange.moved)
        except ClocheError as problem:
            await (tell or _tell)(problem, scope, receive, send)

    async def tunnel(self, socket: Socket, held: Held, port: int) -> None:
        """Raw bytes, to and from a server."""
        async with self.connected(held, port) as connection:
            await socket.accept()
            passing = Tunnel(socket, connection)
            try:
                await passing.carry_out()
            finally:
                held.meter.use(0.0, passing.moved)

    @asynccontextmanager
    async def connected(self, held: Held, port: int) -> AsyncIterator[AsyncConnection]:
        """A connection to a server; the sandbox is not idle while there is one."""
        if self._open[held.id] >= MAX_CONNECTIONS:
            raise Busy(
                f"There are {MAX_CONNECTIONS} connections to this sandbox.",
                "Close some of them, or try again in a moment.",
                retry_after=1.0,
            )
        held.meter.check_day()
        self._open[held.id] += 1
        try:
            async with held.used() as box, await self._connect(held, box, port) as connection:
                yield connection
        finally:
            self._open[held.id] -= 1
            if not self._open[held.id]:
                del self._open[held.id]

    async def _connect(self, held: Held, box: AsyncSandbox, port: int) -> AsyncConnection:
        try:
            try:
                return await box.ports.connect(port)
            except Gone:
                await box.ports.wait(port, START_S)
                return await box.ports.connect(port)
        except Gone as problem:
            if not is_alive(held):
                raise Ended("The sandbox has ended.", hint="Make a new one.") from None
            raise Unwelcome(502, "failed", problem.message, problem.hint) from None


def is_alive(held: Held) -> bool:
    """Has the sandbox not ended yet?"""
    return held.record.state == "alive" and not held.feed.over


def _is_part_of_ours(headers: Headers) -> bool:
    """Would it become a part of a page of our origin?  A page of the server's own has no origin, and says so."""
    same = headers.get("sec-fetch-site") == "same-origin"
    return "service-worker" in headers or (same and headers.get("sec-fetch-dest", "") not in _PASSIVE)


def _scheme(scope: Scope) -> str:
    return "https" if scope["scheme"] in ("https", "wss") else "http"


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


async def _tell(problem: ClocheError, scope: Scope, receive: Receive, send: Send) -> None:
    """What is wrong, as a page for people and as JSON for programs."""
    response: Response = answer(problem)
    if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
        page = _PAGE.format(title=escape(problem.message), hint=escape(problem.hint))
        response = HTMLResponse(page, response.status_code)
    response.headers.update(_PAGE_HEADERS)
    await response(scope, receive, send)
