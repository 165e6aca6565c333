"""Recognizes the requests of E2B's clients and routes them: by host name, by headers, or by the first path segment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from cloche.doors.e2b import envd, tokens
from cloche.doors.e2b.answers import BrokenOff, Refusal, refusal, refuse
from cloche.doors.e2b.control import Control
from cloche.doors.e2b.interpreter import Interpreter
from cloche.doors.e2b.requests import Route
from cloche.doors.e2b.sandboxes import Directory, E2bSandbox
from cloche.doors.faults import unexpected
from cloche.doors.gate.admission import RequestAdmission
from cloche.doors.gate.declarations import Declared
from cloche.doors.gate.identity import Identity
from cloche.doors.ports import PortDoor, PortTarget
from cloche.doors.routing.access import UNKNOWN, Access, BodyKind
from cloche.errors import ClocheError
from cloche.policy.caller import SCOPES, Caller
from cloche.service.service import Service

ENVD, INTERPRETER = 49983, 49999
# Port 0 stands for the server itself, which has its own host names.
_HOST = re.compile(r"([1-9]\d{0,4})-([a-z0-9]+)\.(.+)")
_CONTROL = frozenset(
    ("sandboxes", "v2", "v3", "templates", "snapshots", "volumes", "volumecontent", "secrets", "teams")
)
_AGENT = frozenset(("process.Process", "filesystem.Filesystem", "files", "health"))
_OURS = frozenset((b"e2b-sandbox-id", b"e2b-sandbox-port", tokens.TRAFFIC_TOKEN))
_NOWHERE = Access("sandbox")  # for addresses of envd that do not exist
_NOWHERE_PUBLIC = Access("public")  # the same for the interpreter, whose addresses are no secret
_SLASHES = re.compile("^/{2,}")


class E2bTarget(NamedTuple):
    """The target of a request: a port of the sandbox with this name or token, or the server itself (port 0)."""

    sandbox: str = ""
    port: int = 0
    token: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether Cloche answers the request, and no server in the sandbox."""
        return self.port in (ENVD, INTERPRETER)


class E2bDoor:
    def __init__(self, service: Service, ports: PortDoor) -> None:
        self._service, self._ports = service, ports
        self._directory = Directory(service)
        self._control = Control(service, self._directory)
        self._interpreter = Interpreter(service)
        self._identity, self._admission = Identity(service), RequestAdmission(service)

    # --- the target of a request

    @staticmethod
    def visit(scope: Scope) -> E2bTarget | None:
        """Return the target of a request to one of our host names; None if no E2B client sent it."""
        sandbox = port = token = b""
        for name, value in scope["headers"]:
            if name == b"e2b-sandbox-id":
                sandbox = value
            elif name == b"e2b-sandbox-port":
                port = value
            elif name == b"x-access-token":
                token = value
        path: str = scope["path"]
        first = path.lstrip("/").partition("/")[0]
        if sandbox and port.isdigit() and len(port) <= 5:
            # Clients from 2.5 to 2.29 send the sandbox and its agent's port even with requests to the server.
            to_server = int(port) == ENVD and first in _CONTROL
            return E2bTarget() if to_server else E2bTarget(sandbox.decode("latin-1"), int(port))
        if token and first in _AGENT:
            return E2bTarget("", ENVD, token.decode("latin-1"))  # once connected, the same clients send neither
        return E2bTarget() if first in _CONTROL or first == "files" else None

    @staticmethod
    def visit_by_host(name: str, ours: set[str]) -> E2bTarget | None:
        """Return the target of a request to PORT-SANDBOX.NAME, where NAME is one of ours."""
        found = _HOST.fullmatch(name)
        return E2bTarget(found[2], int(found[1])) if found and found[3] in ours else None

    def declarations(self) -> Iterable[Declared]:
        """List every address that E2B's clients use, with its declared access."""
        for (method, *segments), operation in self._control.operations.items():
            yield Declared("E2B", method, "/".join(("", *(part or "{name}" for part in segments))), operation.access)
        for (method, path), route in envd.ROUTES.items():
            yield Declared(f"E2B, port {ENVD}", "any" if method == "*" else method, path, route.access)
        for (method, *segments), found in self._interpreter.routes.items():
            path = "/".join(("", *(part or "{context}" for part in segments)))
            yield Declared(f"E2B, port {INTERPRETER}", method, path, found.access)
        yield Declared("E2B, other ports", "any", "PORT-SANDBOX.localhost", Access("port", "stream", stream="port"))

    # --- answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send, visit: E2bTarget) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        if scope["path"].startswith("//"):
            scope["path"] = _SLASHES.sub("/", scope["path"])
        try:
            await self._answer(scope, receive, sending if scope["type"] == "http" else send, visit)
        except BrokenOff:
            return
        except (ClocheError, Refusal) as problem:
            if begun:
                return  # the client sees that the answer is incomplete
            found = problem if isinstance(problem, Refusal) else refusal(problem)
        except Exception as problem:
            fault = unexpected(problem)
            if begun:
                return
            found = refusal(fault)
        else:
            return
        if scope["type"] == "http":
            await refuse(send, found)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send, visit: E2bTarget) -> None:
        if visit.port:
            directory = self._directory
            sandbox = directory.with_token(visit.token) if visit.token else await directory.living(visit.sandbox)
            if sandbox is None:
                raise _not_found(visit.sandbox)
            await self._reach(scope, receive, send, sandbox, visit.port)
            return
        if scope["type"] != "http":
            raise Refusal(404, "There is nothing at this address.")
        if scope["path"] == "/files":
            scope["route"] = Route("e2b:/files")
            await self._signed(scope, receive, send)
            return
        operation, names = self._control.find(scope)
        access = UNKNOWN if operation is None else operation.access
        uploader = self._control.uploader(scope)
        if uploader is not None:
            caller = self._admission.admit(scope, uploader, access.scope)
        else:
            caller = self._admit_key(scope, access)
        body = self._bounded(scope, receive, access.body)
        await self._control.answer(scope, body, send, caller, operation, names)

    async def _reach(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox, port: int) -> None:
        """Check the token, and only then let the request wake the sandbox or count for its owner."""
        if port == ENVD:
            await self._ask_envd(scope, receive, send, sandbox)
        elif port == INTERPRETER and scope["type"] == "http":
            await self._ask_interpreter(scope, receive, send, sandbox)
        else:
            tokens.check_port(scope, sandbox)
            await self._wake(sandbox)
            await self._proxy(scope, receive, send, sandbox, port)

    async def _ask_envd(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
        if scope["type"] != "http":
            raise Refusal(404, "There is no WebSocket at this address.")
        scope["route"] = Route(f"e2b:{ENVD}")
        route = envd.find(scope)
        access = _NOWHERE if route is None else route.access
        tokens.check_agent(scope, sandbox, access, is_signed=route is not None and route.is_signed)
        await self._wake(sandbox)
        body = self._admit(scope, receive, sandbox, access)
        with self._reading(scope, sandbox, access):
            await envd.envd(scope, body, send, sandbox, route)

    async def _ask_interpreter(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
        scope["route"] = Route(f"e2b:{INTERPRETER}")
        route, name = self._interpreter.find(scope)
        access = _NOWHERE_PUBLIC if route is None else route.access
        tokens.check_interpreter(scope, sandbox, access)
        await self._wake(sandbox)
        body = self._admit(scope, receive, sandbox, access)
        with self._reading(scope, sandbox, access):
            await self._interpreter.answer(scope, body, send, sandbox, route, name)

    async def _wake(self, sandbox: E2bSandbox) -> None:
        if not await self._control.wake(sandbox):
            raise _not_found(sandbox.id)

    async def _proxy(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox, port: int) -> None:
        """Pass the request on to a server in the sandbox."""

        async def tell(problem: ClocheError, _: Scope, __: Receive, send: Send) -> None:
            found = refusal(problem)
            if found.status != 502:
                await refuse(send, found)
                return
            more = {"sandboxId": sandbox.id, "port": port}
            await refuse(send, Refusal(502, "The sandbox is running but port is not open", more=more))

        scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in _OURS]}
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        mask = sandbox.traits.mask_host.replace("${PORT}", str(port))
        place = PortTarget(sandbox.acting_caller, sandbox.view.id, port)
        await self._ports.reach(scope, receive, send, place, "", path, needs_key=False, mask=mask, tell=tell)

    async def _signed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a signed address of a file; only its signature says which sandbox it belongs to."""
        query = tokens.signed_query(scope)
        for sandbox in self._directory.there():
            if tokens.has_signature(scope, sandbox, query):
                await self._ask_envd(scope, receive, send, sandbox)
                return
        raise Refusal(401, "invalid signature")

    # --- admission

    def _admit(self, scope: Scope, receive: Receive, sandbox: E2bSandbox, access: Access) -> Receive:
        """Admit a request in the name of the key that made the sandbox, and limit the size of its body."""
        if access.scope in SCOPES:
            self._admit_key(scope, access)  # a route that declares no access
        elif access.scope == "public":
            pass
        elif sandbox.caller is None:
            raise Refusal(401, "The key that made this sandbox was revoked.")
        else:
            self._admission.admit(scope, sandbox.caller, "run")
        return self._bounded(scope, receive, access.body)

    @contextmanager
    def _reading(self, scope: Scope, sandbox: E2bSandbox, access: Access) -> Iterator[None]:
        """Hold a place for the answer if it is a stream: in E2B's API, each address has one kind of answer."""
        if access.stream == "none":
            yield
            return
        reader = self._admission.enter(scope, sandbox.view.id, access.stream)
        try:
            yield
        finally:
            reader.leave()

    def _admit_key(self, scope: Scope, access: Access) -> Caller:
        caller = self._identity.by_header(Headers(scope=scope))
        if caller is None:
            raise Refusal(401, "Invalid API key: `cloche e2b` prints one that this server knows.")
        return self._admission.admit(scope, caller, access.scope)

    def _bounded(self, scope: Scope, receive: Receive, kind: BodyKind) -> Receive:
        bounded = self._admission.bounded(scope, Headers(scope=scope), receive, kind)

        async def translated() -> Message:
            try:
                return await bounded()
            except ClocheError as problem:
                # Not as a ClocheError, which envd would send inside an answer with the HTTP status 200.
                raise refusal(problem) from None

        return translated


def _not_found(name: str) -> Refusal:
    return Refusal(502, "The sandbox was not found", more={"sandboxId": name})
