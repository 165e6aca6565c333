"""Servers inside a sandbox: which there are, addresses for them, and they themselves, with a key."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from cloche.doors.http.answers import Listening, Page, PortAddress, PortAnswer
from cloche.doors.http.bodies import PortBody
from cloche.doors.http.given import After, Json, Limit, TheSandbox, held_of, page
from cloche.doors.http.problems import ALWAYS
from cloche.doors.ports import Ports
from cloche.doors.sockets import Door, Socket
from cloche.errors import Gone, InvalidRun
from cloche.sandbox.checks import checked_port
from cloche.service.held import Held
from cloche.service.shapes import plain

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}/ports", responses=ALWAYS, tags=["ports"])

Number = Annotated[int, Path(ge=1, le=65535)]
LONGEST_WAIT_S = 300.0
_FIXED = 6  # parts of the path in front of the server's own


@router.get("", responses={200: {"model": Page[PortAnswer]}}, response_class=Response)
async def listed(held: TheSandbox, limit: Limit = 100, after: After = None) -> Response:
    """The ports on which something listens."""
    async with held.used() as box:
        return Json(page([plain(port) for port in await box.ports.list()], limit, after))


@router.get("/{port}", responses={200: {"model": Listening}}, response_class=Response)
async def listening(
    held: TheSandbox,
    port: Number,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="seconds to wait for it")] = 0.0,
) -> Response:
    """Does anything listen there, now or within a while?"""
    there = True
    async with held.used() as box:
        try:
            await box.ports.wait(port, wait)
        except Gone:
            await box.ports.list()  # raises when it is the sandbox that is gone
            there = False
    return Json({"port": port, "listening": there})


@router.post("/{port}", responses={200: {"model": PortAddress}}, response_class=Response)
async def address(request: Request, held: TheSandbox, port: Number, body: PortBody | None = None) -> Response:
    """An address for a port, with a token of its own in it: whoever has it needs no key."""
    ports: Ports = request.app.state.ports
    grant = ports.grant(held, port, None if body is None else body.ttl)
    told = {
        "port": port,
        "url": ports.url(grant, request.scope),
        "path": f"/ports/{grant.token}/",
        "token": grant.token,
        "expires": grant.expires,
    }
    return Json(told)


class _Proxied:
    """Requests and WebSockets with a key, passed on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one on."""
        if scope["type"] == "websocket":

            async def handle(socket: Socket) -> None:
                await self._reach(socket.scope, receive, send)

            await Door(handle)(scope, receive, send)
        else:
            await self._reach(scope, receive, send)

    async def _reach(self, scope: Scope, receive: Receive, send: Send) -> None:
        held, port = await _place(scope, scope["path_params"]["port"])
        rest = scope["raw_path"].split(b"/", _FIXED)[_FIXED:]
        prefix = f"/v1/sandboxes/{held.id}/ports/{port}"
        ports: Ports = scope["app"].state.ports
        await ports.reach(scope, receive, send, held, port, prefix, b"/" + b"".join(rest), needs_key=True)


async def _place(scope: Scope, number: Any) -> tuple[Held, int]:
    held = await held_of(HTTPConnection(scope), scope["path_params"]["sandbox_id"])
    text = str(number)
    if not text.isdecimal() or len(text) > 5:
        raise InvalidRun("A port is a number from 1 to 65535.")
    return held, checked_port(int(text))


async def _tunnel(socket: Socket) -> None:
    held, port = await _place(socket.scope, HTTPConnection(socket.scope).query_params.get("port", ""))
    ports: Ports = socket.scope["app"].state.ports
    await ports.tunnel(socket, held, port)


_PROXIED = "/v1/sandboxes/{sandbox_id}/ports/{port}/{path:path}"
routes = [
    Route(_PROXIED, _Proxied(), include_in_schema=False, name="proxied"),
    WebSocketRoute(_PROXIED, _Proxied(), name="proxied_websocket"),
    WebSocketRoute("/v1/sandboxes/{sandbox_id}/tunnel", Door(_tunnel), name="tunnel"),
]
