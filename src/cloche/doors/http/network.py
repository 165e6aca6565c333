"""`/v1/sandboxes/{id}/network`: what a sandbox may reach, and what it tried to reach."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, Limit, SandboxId, TheCaller, TheService
from cloche.doors.http.network_fields import NetworkBody, NetworkLogAnswer, NetworkPolicyAnswer
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations
from cloche.results.fields import plain
from cloche.service.network import NetworkInfo

operations = Operations("/v1/sandboxes/{sandbox_id}/network", responses=ERROR_RESPONSES, tag="network")

_POLICY: dict[int | str, dict[str, Any]] = {200: {"model": NetworkPolicyAnswer}}


@operations.get("", scope="read", name="get", responses=_POLICY)
async def policy(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Get what a sandbox may reach, and what this key may let it reach."""
    return Json(_json(await service.networks.policy(caller, sandbox_id)))


@operations.put("", scope="run", name="replace", body="json", responses=_POLICY)
async def replace(sandbox_id: SandboxId, body: NetworkBody, service: TheService, caller: TheCaller) -> Response:
    """Replace what a sandbox may reach.  A field that is left out has its default; `{}` closes the network."""
    return Json(_json(await service.networks.replace(caller, sandbox_id, body.network())))


@operations.get("/log", scope="read", name="list_attempts", responses={200: {"model": NetworkLogAnswer}})
async def log(
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    since: Annotated[
        int, Query(ge=0, le=1 << 50, description="the number of the last attempt that the client has seen")
    ] = 0,
    limit: Limit = 1000,
) -> Response:
    """List the attempts of a sandbox to reach a host, oldest first."""
    attempts = await service.networks.log(caller, sandbox_id, since)
    return Json({"items": plain(attempts[:limit])})


def _json(info: NetworkInfo) -> dict[str, Any]:
    return {**info.policy.as_dict(), "lost_secrets": list(info.lost_secrets)}
