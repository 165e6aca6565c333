"""Serves the playground: `/` and the files that it loads from `/assets`.  They contain no secret and need no key.

The names of all files below `/assets`, except the frame, contain a digest, so browsers may keep them for ever.  The
content security policy lets the page load from this server only, and show servers in sandboxes in frames.  The frame
shows HTML that sandboxes made, and may load nothing at all.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from cloche.doors.http.problems import RequestRefused
from cloche.doors.routing.routes import Operations

operations = Operations(include_in_schema=False)

BUILT = Path(__file__).parent / "built"
ASSETS = "/assets/"
_FRAME = "frame.html"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".wasm": "application/wasm",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))

# Monaco sets inline styles, and Ruff is WebAssembly.  Scripts and connections are limited to this server.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; frame-src {frames}; "
    "media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_WORKER_POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"
# The frame has no origin, so it has no cookie, and it has no connection to send data over.
_FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src {scripts}; "
    "style-src 'unsafe-inline' data:; img-src data: blob:; font-src data:; media-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_FRAME_SCRIPTS = "'unsafe-inline' 'unsafe-eval' data: blob:"
# A content security policy does not cover peer connections, and Chromium knows no directive for them.  This header
# does: it names the addresses that a document and its frames may connect to, by any means.  A browser that ignores the
# header gets the frame from `?still`, in which only the frame's own script runs.
_FRAME_HEADERS = {"Connection-Allowlist": "()", "X-DNS-Prefetch-Control": "off"}
_STILL = "still"


def page(status: int = 200, headers: dict[str, str] | None = None, known: str = "", ports: str = "") -> Response | None:
    """Return the page, or None if it was not built.

    `known` is the ETag of the browser's copy, and `ports` the origin of servers in sandboxes that it may show.
    """
    try:
        contents = (BUILT / "index.html").read_bytes()
    except OSError:
        return None
    tag = f'"{sha256(contents).hexdigest()[:16]}"'
    all_headers = {
        "Content-Security-Policy": _PAGE_POLICY.format(frames=f"'self' {ports}".strip()),
        "Cache-Control": "no-cache",
        "ETag": tag,
        **(headers or {}),
    }
    if status == 200 and known == tag:
        return Response(status_code=304, headers=all_headers)
    return Response(contents, status, all_headers, media_type=_TYPES[".html"])


@operations.get(ASSETS + "{name}", scope="public")
@operations.head(ASSETS + "{name}", scope="public")
async def asset(request: Request, name: str) -> Response:
    """Send a script, style sheet or font of the page."""
    kind = _TYPES.get(Path(name).suffix)
    file = BUILT / "assets" / name
    if not _NAME.fullmatch(name) or kind is None or not file.is_file():
        raise RequestRefused(404, "gone", "The page has no such file.", "Reload the page: it may have changed.")
    is_frame = name == _FRAME
    headers = {
        "Cache-Control": "no-cache" if is_frame else "public, max-age=31536000, immutable",
        "Content-Security-Policy": _frame_policy(file, _STILL in request.query_params) if is_frame else _WORKER_POLICY,
        "Vary": "Accept-Encoding",
        **(_FRAME_HEADERS if is_frame else {}),
    }
    accepted = request.headers.get("accept-encoding", "")
    for encoding, suffix in _ENCODINGS:
        small = file.with_name(name + suffix)
        if encoding in accepted and small.is_file():
            return FileResponse(small, headers={**headers, "Content-Encoding": encoding}, media_type=kind)
    return FileResponse(file, headers=headers, media_type=kind)


def _frame_policy(frame: Path, is_still: bool) -> str:
    if not is_still:
        return _FRAME_POLICY.format(scripts=_FRAME_SCRIPTS)
    found = re.search(rb"<script>(.*?)</script>", frame.read_bytes(), re.DOTALL)
    digest = sha256(found[1] if found else b"").digest()
    return _FRAME_POLICY.format(scripts=f"'sha256-{b64encode(digest).decode()}'")
