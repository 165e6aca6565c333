"""The gate in front of all doors: `Gate.__call__` is the journey of a request, on HTTP and WebSocket alike.

The gate finds the route of a request first, and then decides by the access that the route declares
(routing/access.py).  Nothing is decided by the text of a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cloche.doors import sharing
from cloche.doors.faults import unexpected
from cloche.doors.gate.admission import RequestAdmission
from cloche.doors.gate.answering import PREFLIGHT, Answering, Sending
from cloche.doors.gate.declarations import PORT_HOSTS, Declared, declarations
from cloche.doors.gate.identity import Identity
from cloche.doors.gate.origins import Origins, host_of
from cloche.doors.gate.sign_in import sign_in
from cloche.doors.http.problems import problem_response, refusal
from cloche.doors.metrics import Metrics
from cloche.doors.ports import PortDoor
from cloche.doors.routing.access import UNKNOWN, Access
from cloche.doors.routing.table import RouteTable
from cloche.doors.visitors import show_key
from cloche.errors import ClocheError
from cloche.policy.readers import Reader
from cloche.service.service import Service

if TYPE_CHECKING:
    from cloche.doors.e2b.door import E2bDoor


class Gate:
    """Admits requests to the application; the routes find the caller in `scope["state"]["caller"]`."""

    def __init__(
        self, app: ASGIApp, routes: RouteTable, service: Service, metrics: Metrics, ports: PortDoor, e2b: E2bDoor
    ) -> None:
        self._app, self._routes, self._metrics, self._ports, self._e2b = app, routes, metrics, ports, e2b
        self._origins = Origins(service.configuration)
        self._identity = Identity(service)
        self._admission = RequestAdmission(service)
        self._sharing = service.configuration.sharing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        sent = Sending(send)
        try:
            await self._admit_and_answer(scope, receive, sent)
        except Exception as problem:  # no door expected it
            fault = unexpected(problem)
            if not sent.begun:
                await problem_response(fault)(scope, receive, sent)

    async def _admit_and_answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host, name = host_of(headers)
        answering = Answering(send, self._metrics, scope)
        reader: Reader | None = None
        try:
            if name not in self._origins.names and await self._reach_by_host(scope, receive, send, host, name):
                return
            self._origins.check_host(name)
            visit = self._e2b.visit(scope)
            access = UNKNOWN if visit is not None else self._routes.resolve(scope)
            if access.scope == "port":
                self._origins.check_port_visitor(headers, host)
            else:
                self._origins.check(scope, headers, host, access)
                answering.origin = self._origins.allowed(headers)
                if answering.origin and scope.get("method") == "OPTIONS":
                    await Response(status_code=204, headers=PREFLIGHT)(scope, receive, answering)
                    return
            if visit is not None:
                await self._e2b(scope, receive, answering, visit)
                return
            if access.scope == "page" and (response := await sign_in(scope, headers, self._identity)) is not None:
                await response(scope, receive, answering)
                return
            self._admit(scope, headers, access)
            bounded = self._admission.bounded(scope, headers, receive, access.body)
            reader = self._admission.reader(
                scope, headers, access
            )  # last, because nothing fails between this and `leave`
        except ClocheError as problem:
            # A WebSocket that is refused before it is accepted gets an HTTP answer to its handshake.
            await refusal(scope, problem)(scope, receive, answering)
            return
        try:
            await self._app(scope, bounded, answering)
        finally:
            if reader is not None:
                reader.leave()

    def declarations(self) -> list[Declared]:
        """Every route behind the gate."""
        return [*declarations(self._routes), *PORT_HOSTS, *self._e2b.declarations()]

    async def _reach_by_host(self, scope: Scope, receive: Receive, send: Send, host: str, name: str) -> bool:
        """Pass on a request whose host name stands for a port of a sandbox."""
        visit = self._e2b.visit_by_host(name, self._origins.names_with_ports)
        if visit is not None:
            if visit.is_ours:  # a server in a sandbox decides itself which pages may use it
                self._origins.check(scope, Headers(scope=scope), host, UNKNOWN)
            await self._e2b(scope, receive, send, visit)
            return True
        if token := self._origins.port_token(name):
            await self._ports.by_token(scope, receive, send, token)
            return True
        return False

    def _admit(self, scope: Scope, headers: Headers, access: Access) -> None:
        match access.scope:
            case "port":
                pass  # a port's token is looked up by the route
            case "public":
                self._recognize(scope, headers)
            case "share":
                self._recognize(scope, headers)
                sharing.check(scope, headers, self._sharing)
            case "page":
                self._admission.admit(scope, self._identity.known_caller(scope, headers), "read")
            case needed:
                self._admission.admit(scope, self._identity.known_caller(scope, headers), needed)

    def _recognize(self, scope: Scope, headers: Headers) -> None:
        """A caller that shows a key where none is needed is no stranger: load balancers and clients ask for health."""
        if ("authorization" in headers or "x-api-key" in headers) and (caller := self._identity.by_header(headers)):
            show_key(scope, caller.key_id)
