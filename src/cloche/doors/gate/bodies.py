"""Bounds the body of a request, by the kind of body that its route declares (routing/access.py).

JSON is also bounded in the number of its values and in its depth, while it arrives (json_input.py).
"""

from __future__ import annotations

from math import inf

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from cloche.doors.http.problems import RequestRefused
from cloche.doors.json_input import JsonMeter
from cloche.doors.routing.access import BodyKind

_DIGITS = 18  # of a size that can be meant
MAX_UNREAD = 16 << 10  # bytes that a client may send to a route that reads no body; some send an empty object


def bounded(
    scope: Scope, headers: Headers, receive: Receive, kind: BodyKind, max_body: int, max_upload: int
) -> Receive:
    """`receive`, which raises once the body is larger than its route takes; a declared size is checked at once."""
    if scope["type"] != "http" or kind == "stream":
        return receive
    if kind != "encoded" and any(each.lower() not in ("", "identity") for each in headers.getlist("content-encoding")):
        raise RequestRefused(
            415, "invalid", "This server does not take compressed bodies.", "Send the body uncompressed."
        )
    limit = _limit(kind, headers, max_body, max_upload)
    declared = headers.get("content-length", "0")
    if declared.isdecimal() and _number(declared) > limit:
        raise _too_large(limit)
    meter = JsonMeter() if _is_json(kind, headers) else None
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            piece = message.get("body", b"")
            received += len(piece)
            if received > limit:
                raise _too_large(limit)
            if meter is not None and piece:
                meter.feed(piece)
        return message

    return receive_bounded


def _number(digits: str) -> float:
    """A number of any length: Python refuses to read thousands of digits, and all but one may be zeros."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS else inf


def _limit(kind: BodyKind, headers: Headers, max_body: int, max_upload: int) -> int:
    if kind == "none":
        return min(MAX_UNREAD, max_body)
    return max_body if kind == "envelopes" or _is_json(kind, headers) else max_upload


def _is_json(kind: BodyKind, headers: Headers) -> bool:
    return kind == "json" or (kind == "input" and is_json(headers))


def is_json(headers: Headers) -> bool:
    """Whether the request declares its body as JSON."""
    return headers.get("content-type", "").lower().startswith("application/json")


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413,
        "invalid",
        f"The body is too large: this address takes at most {limit} bytes.",
        "Send less, or split it into several requests.",
    )
