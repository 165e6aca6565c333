"""Admits a request whose caller and route are known: scope, requests per minute, size of the body.

The HTTP gate, the MCP door behind it and E2B's door all admit requests here.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from cloche.doors.gate.bodies import bounded
from cloche.doors.routing.access import BodyKind
from cloche.policy.access import check_access
from cloche.policy.caller import Caller
from cloche.service.service import Service


class RequestAdmission:
    """Applies the policy of one server."""

    def __init__(self, service: Service) -> None:
        self._keyring, self._configuration = service.keyring, service.configuration

    def admit(self, scope: Scope, caller: Caller | None, needed: str) -> Caller:
        """Check that the caller's key has the scope, count the request, and tell the routes who the caller is."""
        known = check_access(caller, needed)
        self._keyring.meter(known).admit_request()
        scope.setdefault("state", {})["caller"] = known
        return known

    def bounded(self, scope: Scope, headers: Headers, receive: Receive, kind: BodyKind) -> Receive:
        """The request's body, within the size that its route declares."""
        return bounded(scope, headers, receive, kind, self._configuration.max_body, self._configuration.max_upload)
