"""`/v1/sandboxes`: create, list, extend and end sandboxes; their resource usage and their events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import Page, SandboxAnswer, UsageAnswer
from cloche.doors.http.bodies import SandboxBody, SandboxChanges
from cloche.doors.http.dependencies import After, Json, Limit, SandboxId, TheCaller, TheService, digest_of
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.http.runs import EVENTS
from cloche.doors.http.streams import JSON_OR_STREAMED, EventStream, event, of_log, position, wants_events
from cloche.doors.routing.routes import Operations
from cloche.errors import ClocheError
from cloche.model.limits import Limits
from cloche.policy.caller import Caller
from cloche.results.fields import plain
from cloche.service.sandboxes import NewSandbox, Repetition, SandboxInfo
from cloche.service.service import Service

operations = Operations("/v1/sandboxes", responses=ERROR_RESPONSES, tag="sandboxes")

_FILTER = "metadata."
_NOT_RECORDED = ("limits", "idle_timeout", "paused")


@operations.post("", scope="run", body="json", status_code=201, responses={201: {"model": SandboxAnswer}})
async def create(
    body: SandboxBody,
    service: TheService,
    caller: TheCaller,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """Create a sandbox.  The same request with the same Idempotency-Key returns the same sandbox."""
    request = NewSandbox(
        limits=body.limits(),
        env=body.env or {},
        mounts=body.checked_mounts(),
        network=body.checked_network(),
        packages=body.wanted_packages(),
        environment=body.environment,
        isolation=body.isolation,
        metadata=body.metadata,
        ttl=body.ttl,
        idle_timeout=body.idle_timeout,
        tools=body.tools or (),
        undo=body.undo,
        checkpoints=body.checkpoints,
        persistent=body.persistent,
        workspace=body.workspace,
    )
    repetition = None
    if idempotency_key is not None:
        repetition = Repetition(idempotency_key, digest_of("POST", "/v1/sandboxes", body.model_dump(mode="json")))
    return Json(_json(await service.sandboxes.create(caller, request, repetition)), 201)


@operations.get("", scope="read", name="list", responses={200: {"model": Page[SandboxAnswer]}})
async def listed(
    request: Request,
    service: TheService,
    caller: TheCaller,
    state: Literal["alive", "ended", "lost"] | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """List sandboxes, newest first; `metadata.NAME=VALUE` in the query filters them."""
    metadata = {
        name.removeprefix(_FILTER): value for name, value in request.query_params.items() if name.startswith(_FILTER)
    }
    found, following = await service.sandboxes.list(caller, state, metadata, limit, after)
    return Json({"items": [_json(info) for info in found], "next": following})


@operations.get("/{sandbox_id}", scope="read", name="get", responses={200: {"model": SandboxAnswer}})
async def one(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Get a sandbox, whether it is alive or has ended."""
    return Json(_json(await service.sandboxes.info(caller, sandbox_id)))


@operations.patch("/{sandbox_id}", scope="run", name="update", body="json", responses={200: {"model": SandboxAnswer}})
async def change(sandbox_id: SandboxId, body: SandboxChanges, service: TheService, caller: TheCaller) -> Response:
    """Change the lifetime, the idle timeout or the metadata of a sandbox."""
    return Json(_json(await service.sandboxes.change(caller, sandbox_id, body.model_dump(exclude_unset=True))))


@operations.delete("/{sandbox_id}", scope="run", body="none", status_code=204)
async def kill(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """End a sandbox and everything in it."""
    await service.sandboxes.kill(caller, sandbox_id)
    return Response(status_code=204)


@operations.post("/{sandbox_id}/pause", scope="run", body="none", status_code=204)
async def pause(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Pause a sandbox and its clock; its variables, processes and files remain."""
    await service.sandboxes.pause(caller, sandbox_id)
    return Response(status_code=204)


@operations.post("/{sandbox_id}/resume", scope="run", body="none", status_code=204)
async def resume(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Resume a paused sandbox.  For a running sandbox, this does nothing."""
    await service.sandboxes.resume(caller, sandbox_id)
    return Response(status_code=204)


@operations.get(
    "/{sandbox_id}/usage",
    scope="read",
    name="get_usage",
    stream="reader",
    responses={200: {"model": UsageAnswer, "content": JSON_OR_STREAMED}},
)
async def usage(
    request: Request,
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    interval: Annotated[float, Query(ge=0.1, le=3600, description="seconds between two events")] = 1.0,
) -> Response:
    """Get the resources that a sandbox uses now, or stream them as server-sent events every `interval` seconds."""
    first = await _usage(service, caller, sandbox_id)
    if not wants_events(request):
        return Json(first)

    async def lines() -> AsyncIterator[bytes]:
        number, now = 1, first
        while True:
            yield event(number, "usage", now)
            await asyncio.sleep(interval)
            number += 1
            try:
                now = await _usage(service, caller, sandbox_id)
            except ClocheError:
                return  # the sandbox has ended

    return EventStream(lines())


@operations.get("/{sandbox_id}/events", scope="read", name="stream_events", stream="reader", responses=EVENTS)
async def events(
    request: Request,
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    after: Annotated[
        int | None, Query(ge=0, le=1 << 50, description="the number of the last event that the client has seen")
    ] = None,
) -> Response:
    """Stream all events of a sandbox, whichever client caused them.  Without `after`, only new events are sent."""
    following = await service.sandboxes.follow(caller, sandbox_id)
    feed = await following.__aenter__()
    start = feed.last if after is None and "last-event-id" not in request.headers else position(request, after)

    async def leave() -> None:
        await following.__aexit__(None, None, None)

    return of_log(feed, start, leave)


async def _usage(service: Service, caller: Caller, sandbox: str) -> dict[str, Any]:
    answer: dict[str, Any] = plain(await service.sandboxes.usage(caller, sandbox))
    sent, received = await service.networks.moved(caller, sandbox)
    answer["network"] = {"sent": sent, "received": received}
    return answer


def _json(info: SandboxInfo) -> dict[str, Any]:
    record = info.record
    return {
        **{name: getattr(record, name) for name in SandboxAnswer.model_fields if name not in _NOT_RECORDED},
        "limits": Limits.from_fields(record.limits).by_name(),
        "idle_timeout": info.idle_timeout,
        "paused": info.paused,
    }
