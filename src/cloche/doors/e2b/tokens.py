"""Decides whether a request to a sandbox brings the token that it needs.

A sandbox has two tokens.  The *access token* is for its agent and for running code.  The *traffic token* is for its
ports; E2B's clients also send it, and no other token, when they manage contexts.  The name of a sandbox is no secret,
since any key of its owner can list it.  Without a token, a request is admitted only where the client that created the
sandbox through E2B's API said so: `allow_public_traffic` opens the ports, which is E2B's default, and `secure=False`
opens the code interpreter.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from time import time
from urllib.parse import parse_qsl

from starlette.types import Scope

from cloche.doors.e2b.answers import Refusal, header
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.doors.routing.access import Access

ACCESS_TOKEN, TRAFFIC_TOKEN = b"x-access-token", b"e2b-traffic-access-token"
_NO_TRAFFIC = Refusal(403, "Sandbox is secured with traffic access token. Token header is missing or wrong.")
_NO_ACCESS = Refusal(
    401, "unauthorized access, please provide a valid access token or method signing if supported (X-Access-Token)"
)


def check_agent(scope: Scope, sandbox: E2bSandbox, access: Access, *, is_signed: bool) -> None:
    """Check a request to envd; `is_signed`: a signature in the address can replace the access token."""
    if access.scope == "public" and sandbox.traits.is_from_e2b:
        return
    if sandbox.is_token(header(scope, ACCESS_TOKEN)):
        return
    if not is_signed:
        raise _NO_ACCESS
    _check_signature(scope, sandbox)


def check_interpreter(scope: Scope, sandbox: E2bSandbox, access: Access) -> None:
    """Check a request to the code interpreter."""
    has_access = sandbox.is_token(header(scope, ACCESS_TOKEN))
    has_traffic = sandbox.is_traffic_token(header(scope, TRAFFIC_TOKEN))
    if not (sandbox.traits.is_public or has_traffic or has_access):
        raise _NO_TRAFFIC
    if access.scope == "public" or not sandbox.traits.is_secured or has_access:
        return
    if access.scope != "traffic":
        raise Refusal(401, "To run code, send the sandbox's access token in the header X-Access-Token.")
    if not has_traffic:
        raise Refusal(401, "To use contexts, send the sandbox's traffic token in the header E2B-Traffic-Access-Token.")


def check_port(scope: Scope, sandbox: E2bSandbox) -> None:
    """Check a request to a server in the sandbox."""
    if not (sandbox.traits.is_public or sandbox.is_traffic_token(header(scope, TRAFFIC_TOKEN))):
        raise _NO_TRAFFIC


def signed_query(scope: Scope) -> dict[str, str]:
    """Return the query of a request to `/files`; bytes that are not UTF-8 become lone surrogates."""
    text: str = scope["query_string"].decode("latin-1")
    return dict(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))


def has_signature(scope: Scope, sandbox: E2bSandbox, query: Mapping[str, str]) -> bool:
    """Return whether the address was signed with the sandbox's access token."""
    operation = "read" if scope["method"] in ("GET", "HEAD") else "write"
    right = sandbox.signature(
        query.get("path", ""), operation, query.get("username", ""), query.get("signature_expiration", "")
    )
    given = query.get("signature", "").encode("utf-8", "surrogateescape")
    return hmac.compare_digest(right.encode(), given) and sandbox.caller is not None


def _check_signature(scope: Scope, sandbox: E2bSandbox) -> None:
    query = signed_query(scope)
    if not query.get("signature"):
        raise Refusal(401, "missing signature query parameter")
    if not has_signature(scope, sandbox, query):
        raise Refusal(401, "invalid signature")
    expiration = query.get("signature_expiration", "")
    if expiration and not _is_later(expiration):
        raise Refusal(401, "signature is already expired")


def _is_later(moment: str) -> bool:
    """Return whether a Unix time is not over.  Clients write whole seconds; any other text counts as past."""
    return moment.isascii() and moment.isdecimal() and len(moment) <= _DIGITS and int(moment) >= int(time())


_DIGITS = 18  # enough for every time that a client can mean
