"""Who may open shared pages: nobody, browsers on this host, or everybody who has the link.

Behind a proxy on this host everybody seems to be local, so a forwarded request counts as coming from elsewhere.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from cloche.policy.refusals import Forbidden

SHARED = "/shared/"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def check(scope: Scope, headers: Headers, sharing: str) -> None:
    """Refuse a visitor whom the operator's setting does not let in."""
    if sharing == "off":
        raise Forbidden("Sharing is switched off on this server.", "The operator can allow it: `sharing`.")
    if sharing == "local" and not _is_local(scope, headers):
        raise Forbidden(
            "Shared pages can be opened on the server's own host only.",
            "The operator can share with everybody who has the link: `sharing = everyone` (CLOCHE_SHARING).",
        )


def _is_local(scope: Scope, headers: Headers) -> bool:
    address = (scope.get("client") or ("", 0))[0]
    try:
        return ip_address(address).is_loopback and not any(name in headers for name in _FORWARDED)
    except ValueError:
        return False
