"""Sessions: code in contexts, checkpoints, attempts, as in the library."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import (
    AttemptAnswer,
    BestAnswer,
    CheckpointAnswer,
    ContextAnswer,
    ForkAnswer,
    MomentAnswer,
    Page,
    RestoredAnswer,
    ResultAnswer,
    VariableListAnswer,
)
from cloche.doors.http.bodies import (
    AttemptBody,
    BestBody,
    CellBody,
    CheckpointBody,
    ContextBody,
    ContextChoice,
    ForkBody,
    given_bytes,
)
from cloche.doors.http.dependencies import (
    After,
    Json,
    Limit,
    SandboxId,
    TheCaller,
    TheService,
    long_answer,
    page,
    service_and_caller,
)
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.http.runs import RESULT, View, answer
from cloche.doors.http.streams import JSON_OR_STREAMED, STREAMED, accepted, of_log, wants_events
from cloche.doors.routing.routes import Operations
from cloche.doors.shapes import attempt_json, best_json
from cloche.model.losses import losses_text
from cloche.results.fields import plain, result_fields
from cloche.sandbox.contexts import MAX_SEARCHED
from cloche.service.sessions import CheckpointInfo, ContextInfo

operations = Operations("/v1/sandboxes/{sandbox_id}", responses=ERROR_RESPONSES, tag="sessions")

Name = Annotated[str, Path(max_length=300)]
SearchedName = Annotated[str, Query(max_length=MAX_SEARCHED)]


@operations.post("/run", scope="run", body="json", stream="run", responses=RESULT)
async def run(request: Request, sandbox_id: str, body: CellBody, view: View = None) -> Response:
    """Run code in a session.  It goes on when the client leaves: `/v1/runs/{run_id}/events` has the rest."""
    service, caller = service_and_caller(request)
    stdin = await given_bytes("stdin", body.stdin, body.stdin_base64)
    events = wants_events(request)
    starting = service.sessions.run(
        caller,
        sandbox_id,
        body.code,
        language=body.language,
        context=body.context,
        stdin=stdin,
        env=body.env,
        timeout=body.timeout,
        interactive=body.interactive,
        keep=body.keep,
        keeps_all=body.keep is None and not events,
    )
    started = await accepted(request, service, starting)
    if events:
        return of_log(started.log, run_id=started.id)
    return await answer(request, started, body, view)


@operations.post("/interrupt", scope="run", body="json", status_code=204)
async def interrupt(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, body: ContextChoice | None = None
) -> Response:
    """Stop the code that runs in one context, or in all; variables stay."""
    await service.sessions.interrupt(caller, sandbox_id, None if body is None else body.context)
    return Response(status_code=204)


@operations.post("/restart", scope="run", body="json", status_code=204)
async def restart(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, body: ContextChoice | None = None
) -> Response:
    """End the kernel of one context, or of all: variables are lost, files stay."""
    await service.sessions.restart(caller, sandbox_id, None if body is None else body.context)
    return Response(status_code=204)


@operations.post(
    "/contexts",
    scope="run",
    name="create",
    tag="contexts",
    body="json",
    status_code=201,
    responses={201: {"model": ContextAnswer}},
)
async def create_context(sandbox_id: SandboxId, body: ContextBody, service: TheService, caller: TheCaller) -> Response:
    """Create a context: a place for code with variables of its own."""
    made = await service.sessions.create_context(caller, sandbox_id, body.language, cwd=body.cwd, env=body.env)
    return Json(_context(made), 201)


@operations.get("/contexts", scope="read", name="list", tag="contexts", responses={200: {"model": Page[ContextAnswer]}})
async def contexts(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None
) -> Response:
    """List the contexts of a sandbox, in the order in which they were created."""
    return Json(page([_context(one) for one in await service.sessions.contexts(caller, sandbox_id)], limit, after))


@operations.get(
    "/contexts/{context}/variables",
    scope="read",
    name="list_variables",
    tag="contexts",
    responses={200: {"model": VariableListAnswer}},
)
async def variables(
    sandbox_id: SandboxId,
    context: Name,
    service: TheService,
    caller: TheCaller,
    search: SearchedName = "",
    name: SearchedName = "",
) -> Response:
    """List up to 1000 variables whose names contain `search`, or the one called `name` with more of its value."""
    return Json(plain(await service.sessions.variables(caller, sandbox_id, context, search, name)))


@operations.delete("/contexts/{context}", scope="run", name="delete", tag="contexts", body="none", status_code=204)
async def remove_context(sandbox_id: SandboxId, context: Name, service: TheService, caller: TheCaller) -> Response:
    """End a context for good."""
    await service.sessions.remove_context(caller, sandbox_id, context)
    return Response(status_code=204)


@operations.post(
    "/checkpoints",
    scope="run",
    name="create",
    tag="checkpoints",
    body="json",
    status_code=201,
    responses={201: {"model": CheckpointAnswer}},
)
async def create_checkpoint(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, body: CheckpointBody | None = None
) -> Response:
    """Save variables and files as they are now."""
    taken = await service.sessions.checkpoint(caller, sandbox_id, "" if body is None else body.name)
    return Json(_checkpoint(taken), 201)


@operations.get(
    "/checkpoints", scope="read", name="list", tag="checkpoints", responses={200: {"model": Page[CheckpointAnswer]}}
)
async def checkpoints(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None
) -> Response:
    """List the checkpoints of a sandbox, oldest first."""
    taken = await service.sessions.checkpoints(caller, sandbox_id)
    return Json(page([_checkpoint(one) for one in taken], limit, after))


@operations.delete(
    "/checkpoints/{checkpoint}", scope="run", name="delete", tag="checkpoints", body="none", status_code=204
)
async def remove_checkpoint(
    sandbox_id: SandboxId, checkpoint: Name, service: TheService, caller: TheCaller
) -> Response:
    """Delete a checkpoint."""
    await service.sessions.remove_checkpoint(caller, sandbox_id, checkpoint)
    return Response(status_code=204)


@operations.post(
    "/checkpoints/{checkpoint}/restore",
    scope="run",
    tag="checkpoints",
    body="none",
    responses={200: {"model": RestoredAnswer}},
)
async def restore(sandbox_id: SandboxId, checkpoint: Name, service: TheService, caller: TheCaller) -> Response:
    """Bring variables and files back to a checkpoint."""
    restored = await service.sessions.restore(caller, sandbox_id, checkpoint)
    return Json({**plain(restored), "note": restored.note})


@operations.post("/fork", scope="run", body="json", status_code=201, responses={201: {"model": ForkAnswer}})
async def fork(sandbox_id: SandboxId, service: TheService, caller: TheCaller, body: ForkBody | None = None) -> Response:
    """Create a context that continues from a checkpoint's variables, or from the current ones."""
    source = body or ForkBody()
    branch = await service.sessions.fork(
        caller, sandbox_id, source.checkpoint, files=source.files, context=source.context
    )
    lost = {"lost": plain(branch.lost), "note": losses_text(dict(branch.lost))}
    return Json({**_context(branch), **lost}, 201)


@operations.post(
    "/checkpoints/{checkpoint}/fork",
    scope="run",
    name="fork",
    tag="checkpoints",
    body="json",
    status_code=201,
    responses={201: {"model": ForkAnswer}},
)
async def fork_from(
    sandbox_id: SandboxId,
    checkpoint: Name,
    service: TheService,
    caller: TheCaller,
    body: ForkBody | None = None,
) -> Response:
    """Create a context that continues from this checkpoint."""
    source = (body or ForkBody()).model_copy(update={"checkpoint": checkpoint})
    return await fork(sandbox_id, service, caller, source)


@operations.post("/undo", scope="run", body="none", responses={200: {"model": RestoredAnswer}})
async def undo(sandbox_id: SandboxId, service: TheService, caller: TheCaller) -> Response:
    """Go back to before the last run, in a sandbox that was made with `undo`."""
    restored = await service.sessions.undo(caller, sandbox_id)
    return Json({**plain(restored), "note": restored.note})


@operations.get("/history", scope="read", name="list_history", responses={200: {"model": Page[MomentAnswer]}})
async def history(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None
) -> Response:
    """List the runs, checkpoints and restores of a session, in order."""
    moments = await service.sessions.history(caller, sandbox_id)
    return Json(page([plain(moment) for moment in moments], limit, after))


@operations.post(
    "/attempts",
    scope="run",
    name="create",
    tag="attempts",
    body="json",
    stream="run",
    status_code=201,
    responses={201: {"model": AttemptAnswer}, 200: {"content": STREAMED, "description": "the same as events"}},
)
async def attempt(
    request: Request, sandbox_id: SandboxId, body: AttemptBody, service: TheService, caller: TheCaller
) -> Response:
    """Run code in a branch and see what it changes; then keep it or discard it."""
    run, tried = await service.attempts.start(caller, sandbox_id, body.code, context=body.context, timeout=body.timeout)
    if wants_events(request):
        return of_log(run.log, run_id=run.id)
    await run.outcome()
    return await long_answer(tried[0].result, lambda: attempt_json(tried[0]), 201)


@operations.post(
    "/attempts/{attempt}/keep", scope="run", tag="attempts", body="none", responses={200: {"model": ResultAnswer}}
)
async def keep(sandbox_id: SandboxId, attempt: Name, service: TheService, caller: TheCaller) -> Response:
    """Let the session continue from an attempt."""
    result = await service.attempts.keep(caller, sandbox_id, attempt)
    return await long_answer(result, lambda: result_fields(result))


@operations.post("/attempts/{attempt}/discard", scope="run", tag="attempts", body="none", status_code=204)
async def discard(sandbox_id: SandboxId, attempt: Name, service: TheService, caller: TheCaller) -> Response:
    """Drop an attempt, as if it had never run."""
    await service.attempts.discard(caller, sandbox_id, attempt)
    return Response(status_code=204)


@operations.post(
    "/best_of",
    scope="run",
    body="json",
    stream="run",
    responses={200: {"model": BestAnswer, "content": JSON_OR_STREAMED}},
)
async def best_of(
    request: Request, sandbox_id: SandboxId, body: BestBody, service: TheService, caller: TheCaller
) -> Response:
    """Run candidates in branches, and continue as the one with the highest score."""
    events = wants_events(request)
    run, found = await service.attempts.best_of(
        caller,
        sandbox_id,
        body.candidates,
        body.score,
        context=body.context,
        timeout=body.timeout,
        asks=events,
    )
    if events:
        return of_log(run.log, run_id=run.id)
    await run.outcome()
    return Json(best_json(found[0]))


def _context(context: ContextInfo) -> dict[str, Any]:
    return {name: getattr(context, name) for name in ContextAnswer.model_fields}


def _checkpoint(checkpoint: CheckpointInfo) -> dict[str, Any]:
    return {**asdict(checkpoint), "lost": plain(checkpoint.lost), "note": losses_text(dict(checkpoint.lost))}
