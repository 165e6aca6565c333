"""Checks for which host a request is and which web page sent it.

A page of any site can send requests to localhost like everybody else, so being local proves nothing
(docs/security.md).  The Host must be one of ours, an Origin must be ours, and other sites' pages are refused.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from cloche.configuration import Configuration
from cloche.doors.http.problems import RequestRefused
from cloche.doors.routing.access import Access


class Origins:
    """The names and origins that one server answers to."""

    def __init__(self, configuration: Configuration) -> None:
        self.names = {"localhost", "127.0.0.1", "[::1]", *(name.lower() for name in configuration.hosts)}
        if configuration.host not in ("0.0.0.0", "::"):
            host = configuration.host
            self.names.add(f"[{host}]" if ":" in host else host.lower())
        self.names_with_ports = self.names | {configuration.ports_domain.lower()}
        self._ports_suffix = "." + configuration.ports_domain.lower()
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in configuration.origins)

    def port_token(self, name: str) -> str:
        """The token of an address like TOKEN.localhost, or nothing."""
        return name.removesuffix(self._ports_suffix) if name.endswith(self._ports_suffix) else ""

    def check_host(self, name: str) -> None:
        if name not in self.names:
            raise RequestRefused(
                421,
                "forbidden",
                "This server does not answer to that host name.",
                "Use the address that it printed, or have the operator add the name to `hosts` (CLOCHE_HOSTS).",
            )

    def check(self, scope: Scope, headers: Headers, host: str, access: Access) -> None:
        """Refuse requests that another site's page has made, except that people may follow its links to our pages."""
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if not all(self._is_ours(origin, host) for origin in origins):
            raise _other_site("Have the operator add the page's origin to `origins` (CLOCHE_ORIGINS).")
        is_allowed = bool(origins) and self._allowed.issuperset(origins)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_allowed:
            navigates = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not (access.linked and navigates and headers.get("sec-fetch-dest") == "document"):
                raise _other_site()

    def check_port_visitor(self, headers: Headers, host: str) -> None:
        """For servers in sandboxes below a path of ours: the token is the key, and their pages have no origin."""
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if not all(origin == "null" or self._is_ours(origin, host) for origin in origins):
            raise _other_site()

    def allowed(self, headers: Headers) -> str:
        """The origin of the page that sent the request, if it is one that the operator allows; or nothing."""
        origin = headers.get("origin", "")
        return origin if origin.lower() in self._allowed else ""

    def _is_ours(self, origin: str, host: str) -> bool:
        return origin in (f"http://{host}", f"https://{host}") or origin in self._allowed


def host_of(headers: Headers) -> tuple[str, str]:
    """The Host header and the name in it; two headers make a name that is nobody's."""
    host = ", ".join(headers.getlist("host")).lower()
    name, _, port = host.rpartition(":")
    return host, name if port.isdecimal() else host


def _other_site(hint: str = "") -> RequestRefused:
    return RequestRefused(403, "forbidden", "Pages of other sites may not use this server.", hint)
