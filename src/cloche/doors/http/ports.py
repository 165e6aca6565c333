"""Servers inside a sandbox: lists their ports, makes addresses for them, and passes requests on to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cloche.doors.gate.identity import caller_of
from cloche.doors.http.answers import Listening, Page, PortAddress, PortAnswer
from cloche.doors.http.bodies import PortBody
from cloche.doors.http.dependencies import After, Json, Limit, SandboxId, TheCaller, TheService, page
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.ports import PortDoor, PortTarget
from cloche.doors.routing.routes import ApplicationRoute, Operations, SocketRoute
from cloche.doors.sockets import Door, Socket
from cloche.errors import InvalidRun
from cloche.results.fields import plain

operations = Operations("/v1/sandboxes/{sandbox_id}/ports", responses=ERROR_RESPONSES, tag="ports")

Number = Annotated[int, Path(ge=1, le=65535)]
LONGEST_WAIT_S = 300.0
_FIXED = 6  # segments of the path before the server's own path


@operations.get("", scope="read", name="list", responses={200: {"model": Page[PortAnswer]}})
async def listed(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None
) -> Response:
    """List the ports on which servers in the sandbox listen."""
    return Json(page([plain(port) for port in await service.ports.list(caller, sandbox_id)], limit, after))


@operations.get("/{port}", scope="run", name="check", responses={200: {"model": Listening}})
async def listening(
    sandbox_id: SandboxId,
    port: Number,
    service: TheService,
    caller: TheCaller,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="seconds to wait for a server")] = 0.0,
) -> Response:
    """Check whether a server listens on a port, now or within `wait` seconds."""
    return Json({"port": port, "listening": await service.ports.wait(caller, sandbox_id, port, wait)})


@operations.post("/{port}", scope="run", name="open", body="json", responses={200: {"model": PortAddress}})
async def address(
    request: Request,
    sandbox_id: SandboxId,
    port: Number,
    service: TheService,
    caller: TheCaller,
    body: PortBody | None = None,
) -> Response:
    """Create an address for a port.  It contains a token, so a visitor with the address needs no key."""
    door: PortDoor = request.app.state.ports
    grant = await service.ports.grant(caller, sandbox_id, port, None if body is None else body.ttl)
    return Json(
        {
            "port": port,
            "url": door.url(grant, request.scope),
            "path": f"/ports/{grant.token}/",
            "token": grant.token,
            "expires": grant.expires,
        }
    )


class _Proxied:
    """Passes on requests and WebSockets that have a key."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":

            async def handle(socket: Socket) -> None:
                await self._reach(socket.scope, receive, send)

            await Door(handle)(scope, receive, send)
        else:
            await self._reach(scope, receive, send)

    async def _reach(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = _place(scope, scope["path_params"]["port"])
        rest = scope["raw_path"].split(b"/", _FIXED)[_FIXED:]
        prefix = f"/v1/sandboxes/{place.sandbox}/ports/{place.port}"
        door: PortDoor = scope["app"].state.ports
        await door.reach(scope, receive, send, place, prefix, b"/" + b"".join(rest), needs_key=True)


def _place(scope: Scope, port: Any) -> PortTarget:
    text = str(port)
    if not (text.isascii() and text.isdecimal()) or len(text) > 5 or not 1 <= int(text) <= 65535:
        raise InvalidRun("A port is a number from 1 to 65535.")
    return PortTarget(caller_of(scope), scope["path_params"]["sandbox_id"], int(text))


async def _tunnel(socket: Socket) -> None:
    door: PortDoor = socket.scope["app"].state.ports
    await door.tunnel(socket, _place(socket.scope, HTTPConnection(socket.scope).query_params.get("port", "")))


class _ByToken:
    """Requests and WebSockets to /ports/TOKEN/…: the token in the address opens one port of one sandbox."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door: PortDoor = scope["app"].state.ports
        # The raw path, since a token has no characters that need to be escaped.
        parts = scope["raw_path"].partition(b"?")[0].split(b"/", 3)
        token = parts[2].decode("ascii", "replace") if parts[1] == b"ports" else ""
        await door.by_token(scope, receive, send, token, prefix=f"/ports/{token}")


_by_token = _ByToken()
_BY_TOKEN = ("/ports/{token}", "/ports/{token}/{path:file}")
_PROXIED = "/v1/sandboxes/{sandbox_id}/ports/{port}/{path:path}"
routes = [
    ApplicationRoute(_PROXIED, _Proxied(), scope="run", body="stream", name="proxied", stream="port"),
    SocketRoute(_PROXIED, _Proxied(), scope="run", name="proxied_websocket", stream="port"),
    SocketRoute("/v1/sandboxes/{sandbox_id}/tunnel", Door(_tunnel), scope="run", name="tunnel", stream="port"),
    *(ApplicationRoute(path, _by_token, scope="port", body="stream", name="port", stream="port") for path in _BY_TOKEN),
    *(SocketRoute(path, _by_token, scope="port", name="port_websocket", stream="port") for path in _BY_TOKEN),
]
