"""How a browser signs in: the key in the page's address becomes a cookie and leaves the address."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from cloche.doors.gate.cookies import set_token
from cloche.doors.gate.identity import Identity
from cloche.doors.page import files as page_files
from cloche.policy.refusals import Unauthorized

_HINT_PAGE = """<!doctype html><meta charset="utf-8"><title>Cloche</title>
<body style="font:16px system-ui;max-width:40em;margin:4em auto;padding:0 1em">
<h1>Cloche is running</h1><p>Open the address that <code>cloche serve</code> printed. It contains the key, and this
browser will remember it. <code>cloche key</code> prints the key again.</p>"""
_HINT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


async def sign_in(scope: Scope, headers: Headers, identity: Identity) -> Response | None:
    """Answer a request for the page if it brings a key or has none; None when the caller is signed in already."""
    keys = parse_qs(scope["query_string"].decode("latin-1")).get("key")
    if keys:
        caller = identity.by_secret(keys[0])
        if caller is None:
            raise Unauthorized("This server does not know this key.", "`cloche key` prints the server's own.")
        response = RedirectResponse("/", 303, {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"})
        token = await identity.sessions.begin(caller.key_id)
        set_token(response, token, secure=scope["scheme"] == "https")
        return response
    if identity.caller(scope, headers) is not None:
        return None
    page = page_files.page(401, {"Cache-Control": "no-store"})
    return page or HTMLResponse(_HINT_PAGE, 401, {"Content-Security-Policy": _HINT_POLICY})
