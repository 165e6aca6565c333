"""`/v1/sandboxes`: made, listed, extended, ended; what they use and what happens in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import Page, SandboxAnswer, UsageAnswer
from cloche.doors.http.bodies import SandboxBody, SandboxChanges
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheSandbox, TheService
from cloche.doors.http.problems import ALWAYS
from cloche.doors.http.runs import EVENTS
from cloche.doors.http.streams import JSON_OR_STREAMED, EventStream, event, of_log, position, wants_events
from cloche.errors import ClocheError
from cloche.results.fields import plain
from cloche.service.held import Held
from cloche.service.service import Service
from cloche.store.records import SandboxRecord

router = APIRouter(prefix="/v1/sandboxes", responses=ALWAYS, tags=["sandboxes"])

_FILTER = "metadata."
_NOT_RECORDED = ("limits", "idle_timeout", "paused")


@router.post("", status_code=201, responses={201: {"model": SandboxAnswer}}, response_class=Response)
async def create(
    body: SandboxBody,
    service: TheService,
    caller: TheCaller,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """A new sandbox; asked for again with the same Idempotency-Key, it is the same one."""
    body.check_network()
    wish = body.model_dump(exclude={"network"})
    wish["mounts"] = body.checked_mounts()
    if body.timeout is None:
        wish["timeout"] = service.configuration.max_timeout
    record = await service.sandboxes.create(caller, wish, idempotency_key)
    return Json(_json(service, record), 201)


@router.get("", responses={200: {"model": Page[SandboxAnswer]}}, response_class=Response)
async def listed(
    request: Request,
    service: TheService,
    caller: TheCaller,
    state: Literal["alive", "ended", "lost"] | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Sandboxes, newest first; `metadata.NAME=VALUE` in the query chooses among them."""
    wanted = {
        name.removeprefix(_FILTER): value for name, value in request.query_params.items() if name.startswith(_FILTER)
    }
    found, following = await service.sandboxes.list(caller, state, wanted, limit, after)
    return Json({"items": [_json(service, record) for record in found], "next": following})


@router.get("/{sandbox_id}", responses={200: {"model": SandboxAnswer}}, response_class=Response)
async def one(sandbox_id: str, service: TheService, caller: TheCaller) -> Response:
    """A sandbox, also one that has ended."""
    return Json(_json(service, await service.sandboxes.record(caller, sandbox_id)))


@router.patch("/{sandbox_id}", responses={200: {"model": SandboxAnswer}}, response_class=Response)
async def change(held: TheSandbox, body: SandboxChanges, service: TheService, caller: TheCaller) -> Response:
    """Give it more time, or other metadata."""
    record = service.sandboxes.change(caller, held.id, body.model_dump(exclude_unset=True))
    return Json(_json(service, record))


@router.delete("/{sandbox_id}", status_code=204, response_class=Response)
async def kill(sandbox_id: str, service: TheService, caller: TheCaller) -> Response:
    """End it, with all that is in it."""
    await service.sandboxes.kill(caller, sandbox_id)
    return Response(status_code=204)


@router.post("/{sandbox_id}/pause", status_code=204, response_class=Response)
async def pause(held: TheSandbox, service: TheService) -> Response:
    """Have nothing in it run, and its time stand still; variables, programs and files stay as they are."""
    await service.sandboxes.pause(held)
    return Response(status_code=204)


@router.post("/{sandbox_id}/resume", status_code=204, response_class=Response)
async def resume(sandbox_id: str, service: TheService, caller: TheCaller) -> Response:
    """Have it go on where it was; one that runs already is fine."""
    held = service.sandboxes.find(caller, sandbox_id, paused=True)
    if held.box.paused:
        await service.sandboxes.resume(held)
    return Response(status_code=204)


@router.get(
    "/{sandbox_id}/usage",
    responses={200: {"model": UsageAnswer, "content": JSON_OR_STREAMED}},
    response_class=Response,
)
async def usage(
    request: Request,
    held: TheSandbox,
    interval: Annotated[float, Query(ge=0.1, le=3600, description="seconds between two events")] = 1.0,
) -> Response:
    """What it uses now; as server-sent events, again and again."""
    if not wants_events(request):
        return Json(await _usage(held))

    async def lines() -> AsyncIterator[bytes]:
        number = 0
        while not held.feed.over:
            number += 1
            try:
                now = await _usage(held)
            except ClocheError:
                return  # it has ended
            yield event(number, "usage", now)
            await asyncio.sleep(interval)

    return EventStream(lines())


@router.get("/{sandbox_id}/events", responses=EVENTS, response_class=Response)
async def events(
    request: Request,
    held: TheSandbox,
    after: Annotated[int | None, Query(ge=0, le=1 << 50, description="the last event that was seen")] = None,
) -> Response:
    """Everything that happens in it, whoever caused it; without `after`, from now on."""
    start = held.feed.last if after is None and "last-event-id" not in request.headers else position(request, after)
    following = held.followed()
    await following.__aenter__()

    async def leave() -> None:
        await following.__aexit__(None, None, None)

    return of_log(held.feed, start, leave)


async def _usage(held: Held) -> dict[str, Any]:
    told: dict[str, Any] = plain(await held.box.usage())
    told["network"] = {"sent": 0, "received": 0}  # there is none
    return told


def _json(service: Service, record: SandboxRecord) -> dict[str, Any]:
    limits = record.limits
    return {
        **{name: getattr(record, name) for name in SandboxAnswer.model_fields if name not in _NOT_RECORDED},
        "limits": {
            "timeout": limits["timeout_s"],
            "memory": limits["memory_bytes"],
            "cpu": limits["cpu"],
            "disk": limits["disk_bytes"],
            "processes": limits["processes"],
            "output": limits["output_bytes"],
            "build_timeout": limits.get("build_timeout_s", 60.0),
        },
        "idle_timeout": service.sandboxes.idle_timeout(record.id),
        "paused": service.sandboxes.is_paused(record.id),
    }
