"""The gate: whoever knocks is checked here, on HTTP and WebSocket alike, before anything is routed.

A browser's page can send requests to localhost like anybody else, so being local proves nothing (docs/security.md):
the Host must be one of ours, an Origin must be ours, a request that another site's page made is refused, and every
request but the two about health needs a key.
"""

from __future__ import annotations

import logging
import re
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from time import monotonic, time
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloche.doors import sharing
from cloche.doors.http.problems import Unwelcome, answer
from cloche.doors.metrics import Metrics
from cloche.doors.page import files as page_files
from cloche.errors import ClocheError
from cloche.policy.caller import ANYBODY, Caller
from cloche.service.service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.doors.e2b.door import E2bDoor

log = logging.getLogger("cloche.http")

COOKIE = "cloche_session"
SESSION_S = 30 * 86400.0
MAX_SESSIONS = 1000
PUBLIC = frozenset(("/v1/health", "/v1/ready"))
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_ADMIN = ("/v1/keys", "/v1/audit", "/metrics")
_KEY_PROTOCOL = "cloche-key."
_PROXIED = re.compile(r"/v1/sandboxes/[^/]+/ports/[^/]+/")
_UPLOADS = ("/files", "/stdin")  # paths whose bodies are data, not JSON

_SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
# For pages of the sites that the operator names, and no others.  Cookies stay at home: such a page needs a key.
_PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "Authorization, X-API-Key, Content-Type, Accept, Range, If-None-Match, If-Range, "
    "Last-Event-ID, Idempotency-Key, Mcp-Session-Id, Mcp-Protocol-Version",
    "access-control-allow-private-network": "true",
    "access-control-max-age": "600",
}
_EXPOSED = "Cloche-Run, ETag, Content-Range, Content-Disposition, Retry-After, Mcp-Session-Id"
_OPEN_ME = """<!doctype html><meta charset="utf-8"><title>Cloche</title>
<body style="font:16px system-ui;max-width:40em;margin:4em auto;padding:0 1em">
<h1>Cloche is running</h1><p>Open the address that <code>cloche serve</code> printed: it has the key in it, and this
browser will remember it. <code>cloche key</code> prints the key again.</p>"""


class Gate:
    """Lets in who may come in, and says who it is in `scope["state"]["caller"]`."""

    def __init__(self, app: ASGIApp, service: Service, metrics: Metrics, ports: ASGIApp, e2b: E2bDoor) -> None:
        self._app, self._service, self._metrics, self._ports, self._e2b = app, service, metrics, ports, e2b
        self._sessions: dict[str, tuple[str, float]] = {}  # key ids by cookie, and until when
        settings = service.configuration
        self._names = {"localhost", "127.0.0.1", "[::1]", *(name.lower() for name in settings.hosts)}
        if settings.host not in ("0.0.0.0", "::"):
            self._names.add(f"[{settings.host}]" if ":" in settings.host else settings.host.lower())
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.origins)
        self._ports_domain = "." + settings.ports_domain.lower()
        self._names_of_ports = self._names | {settings.ports_domain.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request or WebSocket."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = ", ".join(headers.getlist("host")).lower()  # two are none of ours
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name not in self._names and (visit := self._e2b.visit_by_host(name, self._names_of_ports)) is not None:
            await self._e2b(scope, receive, send, visit)
            return
        if name.endswith(self._ports_domain) and name not in self._names:
            scope.setdefault("state", {})["ports_token"] = name.removesuffix(self._ports_domain)
            await self._ports(scope, receive, send)
            return
        begin = monotonic()
        watched = _Watched(send, self._metrics, scope, begin)
        try:
            self._check_host(name)
            if token := _token_in(scope):
                self._check_visitor(headers, host)
                scope.setdefault("state", {}).update(ports_token=token, ports_prefix=f"/ports/{token}")
                await self._ports(scope, receive, watched)
                return
            self._check_origin(scope, headers, host)
            if headers.get("origin", "").lower() in self._origins:
                watched.origin = headers["origin"]
                if scope["type"] == "http" and scope["method"] == "OPTIONS":
                    await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, watched)
                    return
            if (visit := self._e2b.visit(scope)) is not None:
                await self._e2b(scope, receive, watched, visit)
                return
            if response := self._page(scope, headers):
                await response(scope, receive, watched)
                return
            self._identify(scope, headers)
            bounded = self._bounded(scope, headers, receive)
        except ClocheError as problem:
            await _refuse(problem, scope, receive, watched)
            return
        await self._app(scope, bounded, watched)

    # --- who and from where

    def _check_host(self, name: str) -> None:
        if name not in self._names:
            raise Unwelcome(
                421,
                "forbidden",
                "This server does not answer to that name.",
                "Use the address that it printed, or have the operator add the name to `hosts` (CLOCHE_HOSTS).",
            )

    def _check_origin(self, scope: Scope, headers: Headers, host: str) -> None:
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if not all(self._is_ours(origin, host) for origin in origins):
            raise Unwelcome(
                403,
                "forbidden",
                "Pages of other sites may not use this server.",
                "Have the operator add the page's origin to `origins` (CLOCHE_ORIGINS).",
            )
        is_named = bool(origins) and self._origins.issuperset(origins)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_named:
            visits = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not (visits and headers.get("sec-fetch-dest") == "document" and _is_page(scope)):
                raise Unwelcome(403, "forbidden", "Pages of other sites may not use this server.")

    def _check_visitor(self, headers: Headers, host: str) -> None:
        """A server in a sandbox, below a path of ours: its token is the key, and its pages have no origin."""
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if not all(origin == "null" or self._is_ours(origin, host) for origin in origins):
            raise Unwelcome(403, "forbidden", "Pages of other sites may not use this server.")

    def _is_ours(self, origin: str, host: str) -> bool:
        return origin in (f"http://{host}", f"https://{host}") or origin in self._origins

    def _identify(self, scope: Scope, headers: Headers) -> None:
        state = scope.setdefault("state", {})
        if scope["path"] in PUBLIC or (scope["path"].startswith(page_files.ASSETS) and scope["type"] == "http"):
            return
        if sharing.is_shared(scope):
            sharing.check(scope, headers, self._service.configuration.sharing)
            return
        found = self._by_subprotocol(scope) or self._by_key(headers) or self._by_cookie(headers)
        caller = found if self._service.configuration.auth else ANYBODY
        if caller is None:
            raise Unwelcome(
                401,
                "unauthorized",
                "A key is needed.",
                "Send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `cloche key` prints the server's own.",
            )
        scope_needed = self._scope_of(scope)
        if not caller.may(scope_needed):
            raise Unwelcome(
                403, "forbidden", f"This key may not do that: it wants the scope {scope_needed}.", "Use another key."
            )
        self._service.keyring.meter(caller).admit_request()
        state["caller"] = caller

    def _by_key(self, headers: Headers) -> Caller | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        secret = token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        return self._service.keyring.find(secret) if secret else None

    def _by_subprotocol(self, scope: Scope) -> Caller | None:
        """A browser's WebSocket cannot have headers of its own: the key comes as `cloche-key.KEY`, beside `cloche`."""
        if scope["type"] != "websocket":
            return None
        offered = scope.get("subprotocols", [])
        secrets = [one.removeprefix(_KEY_PROTOCOL) for one in offered if one.startswith(_KEY_PROTOCOL)]
        scope["subprotocols"] = [one for one in offered if not one.startswith(_KEY_PROTOCOL)]  # nobody else's business
        return self._service.keyring.find(secrets[0]) if len(secrets) == 1 and secrets[0] else None

    def _by_cookie(self, headers: Headers) -> Caller | None:
        key, until = self._sessions.get(_cookie(headers), ("", 0.0))
        return self._service.keyring.holder(key) if key and time() < until else None

    def _scope_of(self, scope: Scope) -> str:
        path = scope["path"]
        if path.startswith(_ADMIN):
            return "admin"
        if scope["type"] == "websocket" or scope["method"] not in _READING or "/ports/" in path:
            return "run"
        return "read"

    # --- pages

    def _page(self, scope: Scope, headers: Headers) -> Response | None:
        """The way in for a browser: the key in the address becomes a cookie, and leaves the address."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            return None
        keys = parse_qs(scope["query_string"].decode("latin-1")).get("key")
        if keys:
            caller = self._service.keyring.find(keys[0])
            if caller is None:
                raise Unwelcome(401, "unauthorized", "This key is not known here.", "`cloche key` prints the key.")
            response = RedirectResponse("/", 303, {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"})
            secure = scope["scheme"] == "https"
            response.set_cookie(
                COOKIE, self._session(caller), int(SESSION_S), path="/", secure=secure, httponly=True, samesite="strict"
            )
            return response
        if self._service.configuration.auth and self._by_key(headers) is None and self._by_cookie(headers) is None:
            return page_files.page(401, {"Cache-Control": "no-store"}) or HTMLResponse(
                _OPEN_ME,
                401,
                {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"},
            )
        return None

    def _session(self, caller: Caller) -> str:
        token = token_urlsafe(32)
        self._sessions[token] = (caller.key_id, time() + SESSION_S)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        return token

    # --- how much

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        if scope["type"] != "http":
            return receive
        proxied = _PROXIED.match(scope["path"]) is not None
        if not proxied and headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise Unwelcome(415, "invalid", "Compressed bodies are not taken.", "Send the body as it is.")
        settings = self._service.configuration
        data = proxied or any(part in scope["path"] for part in _UPLOADS)
        most = settings.max_upload if data else settings.max_body
        told = headers.get("content-length", "0")
        if told.isdecimal() and int(told) > most:
            raise _too_large(most)
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > most:
                    raise _too_large(most)
            return message

        return bounded


class _Watched:
    """What is sent, with the headers that every answer has, and counted."""

    def __init__(self, send: Send, metrics: Metrics, scope: Scope, begin: float) -> None:
        self._send, self._metrics, self._scope, self._begin = send, metrics, scope, begin
        self.origin = ""  # of a page of another site that the operator lets in

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


async def _refuse(problem: ClocheError, scope: Scope, receive: Receive, send: Send) -> None:
    # A WebSocket is refused before it is accepted: its handshake is answered like any other request.
    await answer(problem)(scope, receive, send)


def _token_in(scope: Scope) -> str:
    """The token in an address of the form /ports/TOKEN/…"""
    raw: bytes = scope.get("raw_path") or b""
    return raw.split(b"/")[2].decode("ascii", "replace") if raw.startswith(b"/ports/") else ""


def _is_page(scope: Scope) -> bool:
    """May a link of another site lead there?"""
    return scope["path"] == "/" or (sharing.is_shared(scope) and scope["path"].count("/") == 2)


def _too_large(most: int) -> Unwelcome:
    return Unwelcome(413, "invalid", f"The body may have at most {most} bytes.", "Send less, or in several requests.")


def _cookie(headers: Headers) -> str:
    try:
        found: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return found[COOKIE].value if COOKIE in found else ""


def caller_of(scope: Scope) -> Caller:
    """Who was let in."""
    caller: Caller = scope["state"]["caller"]
    return caller
