"""Bounds the body of a request, by the kind of body that its route declares (routing/access.py)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from cloche.doors.http.problems import RequestRefused
from cloche.doors.routing.access import BodyKind

MAX_UNREAD = 16 << 10  # bytes that a client may send to a route that reads no body; some send an empty object


def bounded(
    scope: Scope, headers: Headers, receive: Receive, kind: BodyKind, max_body: int, max_upload: int
) -> Receive:
    """`receive`, which raises once the body is larger than its route takes; a declared size is checked at once."""
    if scope["type"] != "http" or kind == "stream":
        return receive
    if kind != "encoded" and headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise RequestRefused(
            415, "invalid", "This server does not take compressed bodies.", "Send the body uncompressed."
        )
    limit = _limit(kind, headers, max_body, max_upload)
    declared = headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
        return message

    return receive_bounded


def _limit(kind: BodyKind, headers: Headers, max_body: int, max_upload: int) -> int:
    if kind == "none":
        return min(MAX_UNREAD, max_body)
    if kind == "json" or (kind == "input" and headers.get("content-type", "").startswith("application/json")):
        return max_body
    return max_upload


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413,
        "invalid",
        f"The body is too large: this address takes at most {limit} bytes.",
        "Send less, or split it into several requests.",
    )
