"""Pages for people that need neither a key nor Node: the sign-in, refusals, and the frame of the API reference.

Nothing from a request is written into them.  Their policy allows the styles and scripts in this folder, by digest, and
nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import Scope

_FOLDER = Path(__file__).parent
BELL = (
    '<svg viewBox="0 0 32 32" fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round" '
    'aria-hidden="true"><path d="M6 25.5V17a10 10 0 0 1 20 0v8.5" fill="currentColor" fill-opacity=".1" '
    'stroke-width="1.8"/><circle cx="16" cy="4.4" r="2" stroke-width="1.8"/><path d="M3.5 28h25" stroke-width="2.2"/>'
    '<path d="M12 16.8l3 2.8-3 2.8M17.4 22.6h3.4" stroke-width="1.9"/></svg>'
)
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke="#3a8f6d" stroke-width="2.2" '
    'stroke-linecap="round" stroke-linejoin="round"><circle cx="16" cy="4.6" r="2.1"/>'
    '<path d="M6 25.5V17a10 10 0 0 1 20 0v8.5M3.5 28h25M12 17.500l3 2.800-3 2.800M17.600 23.200h3.200"/></svg>'
)
_HOME = '<a class="button" href="/">Open the playground</a>'
_REFERENCE = '<a class="button plain" href="/docs">API reference</a>'
_SIGN_IN = '<a class="button" href="/">Sign in</a>'
_NOTICES = {
    401: ("A key is needed", "Nobody can see this address without a key of this server.", _SIGN_IN + _REFERENCE),
    403: (
        "This is not allowed",
        "Your key may not open this address, or the server takes such requests only from its own pages and its own "
        "machine. An admin's key may be able to open it.",
        _HOME + _REFERENCE,
    ),
    404: (
        "There is nothing at this address",
        "It may be mistyped, or what was here has ended. Nothing else has changed.",
        _HOME + _REFERENCE,
    ),
    405: ("This address is for programs", "A browser cannot open it. The reference says how to use it.", _REFERENCE),
    410: ("This has ended", "It was here once. Your other sandboxes are in the playground.", _HOME + _REFERENCE),
    421: (
        "The server has another name",
        "It does not answer to the host name in this address. Use the address that <code>cloche serve</code> printed, "
        "or have the operator add the name to the setting <code>hosts</code>.",
        "",
    ),
    429: ("Too many requests", "A limit of your key is used up. Wait a moment, then reload this page.", _HOME),
    503: ("The server is busy", "It could not answer now. Wait a moment, then reload this page.", _HOME),
}
_REFUSED = ("This address cannot be opened", "The server does not accept this request.", _HOME + _REFERENCE)
_FAILED = ("Something went wrong", "The server could not answer. Its log says why.", _HOME)
_SIGN_IN_FORM = """<form method="get" action="/" class="pane"><label>Key
<input name="key" type="password" autocomplete="current-password" required autofocus></label>
<button class="button">Sign in</button></form>
<p><small>You stay signed in for 30 days. <a href="/docs">API reference</a></small></p>"""
WRONG_KEY = "The server does not know this key. It may be mistyped or revoked, or belong to another server."
SIGNED_OUT = "This browser is not signed in any more: 30 days have passed, or its key was revoked."


def wants_page(scope: Scope, headers: Headers) -> bool:
    """Whether a person's browser asks for something to look at, rather than a program for data."""
    return scope.get("method") in ("GET", "HEAD") and "text/html" in headers.get("accept", "")


def notice(status: int, headers: dict[str, str] | None = None) -> HTMLResponse:
    """The page that a browser gets in place of an error of this status."""
    title, text, links = _NOTICES.get(status) or (_FAILED if status >= 500 else _REFUSED)
    body = f'<h1 class="name">{title}</h1><p>{text}</p><nav aria-label="Other pages">{links}</nav>'
    return response(title, f'<main class="notice">{BELL}{body}</main>', status=status, headers=headers)


def sign_in(problem: str = "") -> HTMLResponse:
    """The sign-in for servers whose playground was not built; `problem` is a sentence of ours."""
    body = (
        '<h1 class="name">Cloche</h1><p>This server runs code in sandboxes, and needs a key. Open the address that '
        "<code>cloche serve</code> printed, or paste the key here: <code>cloche key</code> prints it.</p>"
    )
    alert = f'<p role="alert">{problem}</p>' if problem else ""
    page = f'<main class="notice">{BELL}{body}{alert}{_SIGN_IN_FORM}</main>'
    return response("Sign in", page, status=401, headers={"Cache-Control": "no-store"}, form_action="'self'")


def home() -> HTMLResponse:
    """The start page of a server whose playground was not built."""
    text = (
        "This server runs code in sandboxes. Its playground was not built: install Node 18 or later, run "
        "<code>make page</code> in the folder of Cloche, and reload. The HTTP API works without it, and MCP clients "
        "connect to <code>/mcp</code>."
    )
    links = f'<nav aria-label="Other pages">{_REFERENCE.replace(" plain", "")}</nav>'
    return response("Start", f'<main class="notice">{BELL}<h1 class="name">Cloche</h1><p>{text}</p>{links}</main>')


def response(
    title: str,
    body: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    part: str = "",
    form_action: str = "'none'",
) -> HTMLResponse:
    """A page with our style; `part` names further styles and a script in this folder."""
    style = _read("plain.css") + (_read(f"{part}.css") if part else "")
    theme, script = _read("plain.js"), _read(f"{part}.js") if part else ""
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(theme)}' '{_digest(script)}'; "
        f"img-src data:; base-uri 'none'; form-action {form_action}; frame-ancestors 'none'"
    )
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Cloche</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:image/svg+xml,{quote(_ICON)}"><style>{style}</style>'
        f"<script>{theme}</script></head><body>{body}<script>{script}</script></body></html>"
    )
    return HTMLResponse(page, status, {"Content-Security-Policy": policy, **(headers or {})})


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text()


@cache
def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
