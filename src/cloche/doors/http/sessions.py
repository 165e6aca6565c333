"""Sessions: cells, contexts, checkpoints, attempts, as in the library."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import (
    AttemptAnswer,
    BestAnswer,
    CheckpointAnswer,
    ContextAnswer,
    MomentAnswer,
    Page,
    RestoredAnswer,
    ResultAnswer,
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
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheSandbox, TheService, held_of, page, visit
from cloche.doors.http.problems import ALWAYS
from cloche.doors.http.runs import RESULT, View, answer
from cloche.doors.http.streams import JSON_OR_STREAMED, STREAMED, accepted, of_log, wants_events
from cloche.sandbox.checkpoints import AsyncCheckpoint
from cloche.sandbox.contexts import AsyncContext
from cloche.service import attempts
from cloche.service.shapes import moment_json, plain, restored_json, result_json

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}", responses=ALWAYS, tags=["sessions"])

Name = Annotated[str, Path(max_length=300)]


@router.post("/run", responses=RESULT, response_class=Response)
async def run(request: Request, sandbox_id: str, body: CellBody, view: View = None) -> Response:
    """Run code in a session; it goes on when the client leaves, see /v1/runs/{run}/events."""
    (service, caller), held = visit(request), await held_of(request, sandbox_id)
    stdin = given_bytes("stdin", body.stdin, body.stdin_base64)
    events = wants_events(request)
    starting = service.sandboxes.run_cell(
        caller,
        held,
        body.code,
        language=body.language,
        context=body.context,
        stdin=stdin,
        env=body.env,
        timeout=body.timeout,
        interactive=body.interactive,
        keep=held.limits.output_bytes if body.keep is None and not events else body.keep,
    )
    started = await accepted(request, service, starting)
    if events:
        return of_log(started.log, run_id=started.id)
    return await answer(request, started, body, view)


@router.post("/interrupt", status_code=204, response_class=Response)
async def interrupt(held: TheSandbox, body: ContextChoice | None = None) -> Response:
    """Have what runs stop, in one context or in all; variables stay."""
    await held.box.interrupt(None if body is None else body.context)
    return Response(status_code=204)


@router.post("/restart", status_code=204, response_class=Response)
async def restart(held: TheSandbox, body: ContextChoice | None = None) -> Response:
    """End the kernel of one context, or of all: variables are gone, files stay."""
    async with held.used() as box:
        await box.restart(None if body is None else body.context)
    held.happened("restart", {"context": None if body is None else body.context})
    return Response(status_code=204)


@router.post("/contexts", status_code=201, responses={201: {"model": ContextAnswer}}, response_class=Response)
async def create_context(held: TheSandbox, body: ContextBody) -> Response:
    """A new context, with no variables."""
    async with held.used() as box:
        context = await box.contexts.create(language=body.language, cwd=body.cwd, env=body.env)
    held.happened("context", {"context": context.id})
    return Json(_context(context), 201)


@router.get("/contexts", responses={200: {"model": Page[ContextAnswer]}}, response_class=Response)
async def contexts(held: TheSandbox, limit: Limit = 100, after: After = None) -> Response:
    """Its contexts, in the order in which they were made."""
    return Json(page([_context(context) for context in held.box.contexts.list()], limit, after))


@router.delete("/contexts/{context}", status_code=204, response_class=Response)
async def remove_context(held: TheSandbox, context: Name) -> Response:
    """End a context for good."""
    async with held.used() as box:
        await box.contexts.remove(context)
    return Response(status_code=204)


@router.post("/checkpoints", status_code=201, responses={201: {"model": CheckpointAnswer}}, response_class=Response)
async def create_checkpoint(held: TheSandbox, body: CheckpointBody | None = None) -> Response:
    """Remember variables and files as they are now."""
    async with held.used() as box:
        taken = await box.checkpoint("" if body is None else body.name)
    held.happened("checkpoint", {"checkpoint": taken.id, "name": taken.name})
    return Json(_checkpoint(taken), 201)


@router.get("/checkpoints", responses={200: {"model": Page[CheckpointAnswer]}}, response_class=Response)
async def checkpoints(held: TheSandbox, limit: Limit = 100, after: After = None) -> Response:
    """Its checkpoints, oldest first."""
    return Json(page([_checkpoint(known) for known in held.box.checkpoints.list()], limit, after))


@router.delete("/checkpoints/{checkpoint}", status_code=204, response_class=Response)
async def remove_checkpoint(held: TheSandbox, checkpoint: Name) -> Response:
    """Forget one."""
    async with held.used() as box:
        await box.checkpoints.remove(checkpoint)
    return Response(status_code=204)


@router.post("/checkpoints/{checkpoint}/restore", responses={200: {"model": RestoredAnswer}}, response_class=Response)
async def restore(held: TheSandbox, checkpoint: Name) -> Response:
    """Make variables and files what they were."""
    async with held.used() as box:
        restored = await box.restore(checkpoint)
    held.happened("restore", {"checkpoint": checkpoint})
    return Json(restored_json(restored))


@router.post("/fork", status_code=201, responses={201: {"model": ContextAnswer}}, response_class=Response)
async def fork(held: TheSandbox, body: ForkBody | None = None) -> Response:
    """A new context that goes on from a checkpoint's variables, or from the live ones."""
    wish = body or ForkBody()
    async with held.used() as box:
        branch = await box.branch(wish.checkpoint, files=wish.files, context=wish.context)
    held.happened("fork", {"context": branch.id})
    return Json(_context(branch), 201)


@router.post(
    "/checkpoints/{checkpoint}/fork",
    status_code=201,
    responses={201: {"model": ContextAnswer}},
    response_class=Response,
)
async def fork_from(held: TheSandbox, checkpoint: Name, body: ForkBody | None = None) -> Response:
    """The same from one checkpoint."""
    return await fork(held, (body or ForkBody()).model_copy(update={"checkpoint": checkpoint}))


@router.post("/undo", responses={200: {"model": RestoredAnswer}}, response_class=Response)
async def undo(held: TheSandbox) -> Response:
    """Go back to before the last run, in a sandbox that was made with `undo`."""
    async with held.used() as box:
        restored = await box.undo()
    held.happened("undo", {})
    return Json(restored_json(restored))


@router.get("/history", responses={200: {"model": Page[MomentAnswer]}}, response_class=Response)
async def history(held: TheSandbox, limit: Limit = 100, after: After = None) -> Response:
    """Runs, checkpoints, restores … in order."""
    return Json(page([moment_json(moment) for moment in held.box.history()], limit, after))


@router.post(
    "/attempts",
    status_code=201,
    responses={201: {"model": AttemptAnswer}, 200: {"content": STREAMED, "description": "the same as events"}},
    response_class=Response,
)
async def attempt(
    request: Request, held: TheSandbox, body: AttemptBody, service: TheService, caller: TheCaller
) -> Response:
    """Run code in a branch and see what it changes; then keep it or discard it."""
    run, tried = await attempts.attempt(service, caller, held, body.code, body.context, body.timeout)
    if wants_events(request):
        return of_log(run.log, run_id=run.id)
    await run.outcome()
    return Json(tried[0], 201)


@router.post("/attempts/{attempt}/keep", responses={200: {"model": ResultAnswer}}, response_class=Response)
async def keep(held: TheSandbox, attempt: Name) -> Response:
    """Let the session go on from there."""
    async with held.used():
        return Json(result_json(await attempts.find(held, attempt).keep()))


@router.post("/attempts/{attempt}/discard", status_code=204, response_class=Response)
async def discard(held: TheSandbox, attempt: Name) -> Response:
    """As if it had never run."""
    async with held.used():
        await attempts.find(held, attempt).discard()
    return Response(status_code=204)


@router.post(
    "/best_of",
    responses={200: {"model": BestAnswer, "content": JSON_OR_STREAMED}},
    response_class=Response,
)
async def best_of(
    request: Request, held: TheSandbox, body: BestBody, service: TheService, caller: TheCaller
) -> Response:
    """Run candidates in branches, and go on as the one with the highest score."""
    events = wants_events(request)
    run, found = await attempts.best_of(
        service, caller, held, body.candidates, body.score, body.context, body.timeout, asks=events
    )
    if events:
        return of_log(run.log, run_id=run.id)
    await run.outcome()
    return Json(found[0])


def _context(context: AsyncContext) -> dict[str, Any]:
    return {"id": context.id, "language": context.language, "cwd": context.cwd, "is_branch": context.is_branch}


def _checkpoint(checkpoint: AsyncCheckpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "name": checkpoint.name,
        "time": checkpoint.time,
        "lost": plain(checkpoint.lost),
    }
