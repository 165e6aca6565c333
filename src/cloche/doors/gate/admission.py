"""Admits a request whose caller and route are known: scope, requests per minute, size of the body, open streams.

The HTTP gate, the MCP door behind it and E2B's door all admit requests here.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from cloche.doors.gate.bodies import bounded
from cloche.doors.routing.access import Access, BodyKind, StreamKind
from cloche.doors.visitors import show_key
from cloche.policy.access import check_access
from cloche.policy.caller import Caller
from cloche.policy.readers import Reader
from cloche.service.service import Service


class RequestAdmission:
    """Applies the policy of one server."""

    def __init__(self, service: Service) -> None:
        self._keyring, self._readers, self._configuration = service.keyring, service.readers, service.configuration

    def admit(self, scope: Scope, caller: Caller | None, needed: str) -> Caller:
        """Check that the caller's key has the scope, count the request, and tell the routes who the caller is."""
        known = check_access(caller, needed)
        show_key(scope, known.key_id)
        self._keyring.meter(known).admit_request()
        scope.setdefault("state", {})["caller"] = known
        return known

    def reader(self, scope: Scope, headers: Headers, access: Access) -> Reader | None:
        """A place for the stream that the request asks for, if it asks for one; call its `leave`."""
        if access.stream in ("none", "port"):
            return None
        if scope["type"] == "http":
            is_asked_for = access.stream != "run" or "text/event-stream" in headers.get("accept", "")
            if not is_asked_for or (access.stream != "run" and scope["method"] != "GET"):
                return None
        parameters = scope.get("path_params", {})
        return self.enter(scope, parameters.get("sandbox_id") or parameters.get("run_id") or "", access.stream)

    def enter(self, scope: Scope, source: str, stream: StreamKind) -> Reader:
        """Take a place for a stream of a sandbox or run; the connection finds it in the state and counts the bytes."""
        caller: Caller = scope["state"]["caller"]
        meter = self._keyring.meter(caller) if stream == "reader" else None
        reader: Reader = self._readers.enter(caller.key_id, "" if stream == "file" else source, meter)
        scope["state"]["reader"] = reader
        return reader

    def bounded(self, scope: Scope, headers: Headers, receive: Receive, kind: BodyKind) -> Receive:
        """The request's body, within the size that its route declares."""
        return bounded(scope, headers, receive, kind, self._configuration.max_body, self._configuration.max_upload)
