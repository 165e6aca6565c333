"""Who may open what was shared: nobody, browsers on this host, or everybody who has the link.

A proxy on this host makes everybody look local, so whoever was forwarded is not.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from cloche.doors.http.problems import Unwelcome

SHARED = "/shared/"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def is_shared(scope: Scope) -> bool:
    """Is this a visit to something shared, for which the link is the key?"""
    return scope["type"] == "http" and scope["path"].startswith(SHARED) and scope["method"] in ("GET", "HEAD")


def check(scope: Scope, headers: Headers, sharing: str) -> None:
    """Refuse whoever may not look."""
    if sharing == "off":
        raise Unwelcome(403, "forbidden", "Nothing is shared here.", "The operator has switched it off (`sharing`).")
    if sharing == "local" and not _is_local(scope, headers):
        raise Unwelcome(
            403,
            "forbidden",
            "What is shared can be opened on the server's own host only.",
            "The operator can share with everybody who has the link: `sharing = everyone` (CLOCHE_SHARING).",
        )


def _is_local(scope: Scope, headers: Headers) -> bool:
    address = (scope.get("client") or ("", 0))[0]
    try:
        return ip_address(address).is_loopback and not any(name in headers for name in _FORWARDED)
    except ValueError:
        return False
