"""Decides who may open shared pages: nobody, browsers on this host, or everybody with the link.

Behind a proxy on this host every visitor seems to be local, so a forwarded request counts as remote.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from cloche.policy.refusals import Forbidden

SHARED = "/shared/"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def check(scope: Scope, headers: Headers, sharing: str) -> None:
    """Refuse a visitor that the operator's setting does not allow."""
    if sharing == "off":
        raise Forbidden(
            "Sharing is switched off on this server.", "The operator can allow it with the setting `sharing`."
        )
    if sharing == "local" and not _is_local(scope, headers):
        raise Forbidden(
            "Shared pages can only be opened on the server's own host.",
            "The operator can allow everybody with the link: `sharing = everyone` (CLOCHE_SHARING).",
        )


def _is_local(scope: Scope, headers: Headers) -> bool:
    address = (scope.get("client") or ("", 0))[0]
    try:
        return ip_address(address).is_loopback and not any(name in headers for name in _FORWARDED)
    except ValueError:
        return False
