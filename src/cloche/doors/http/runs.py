"""`/v1/run` and `/v1/runs`: programs in sandboxes of their own, and all runs by their ids."""

from __future__ import annotations

from json import loads
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cloche.doors.http.answers import ModelAnswer, Page, ResultAnswer, RunAnswer
from cloche.doors.http.bodies import AnswerBody, Base64, InputBody, RunBody, ViewBody, from_base64, given_bytes
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, service_and_caller
from cloche.doors.http.problems import ERROR_RESPONSES, RequestRefused
from cloche.doors.http.streams import JSON_OR_STREAMED, STREAMED, accepted, of_log, outcome, position, wants_events
from cloche.doors.routing.routes import Operations
from cloche.doors.shapes import model_json, result_json
from cloche.model.records import RunRecord
from cloche.model.result import Result
from cloche.service.runs import Run

operations = Operations(responses=ERROR_RESPONSES, tag="runs")

_FORMS = {**JSON_OR_STREAMED, "text/plain": {"schema": {"type": "string"}}}
RESULT: dict[int | str, dict[str, Any]] = {
    200: {"model": ResultAnswer | ModelAnswer, "description": "what it came to", "content": _FORMS}
}
EVENTS: dict[int | str, dict[str, Any]] = {200: {"description": "server-sent events", "content": STREAMED}}
View = Annotated[Literal["full", "model"] | None, Query(description="`model`: what a model should read of it")]
RunId = Annotated[str, Path(max_length=200)]


@operations.post("/v1/run", scope="run", body="json", responses=RESULT)
async def run(request: Request, body: RunBody, view: View = None) -> Response:
    """Run a program in a sandbox of its own; as server-sent events when the client accepts those."""
    service, caller = service_and_caller(
        request
    )  # not by FastAPI's dependencies: they take longer than all the rest here
    body.check_network()
    events = wants_events(request)
    files = {path: _contents(path, data) for path, data in (body.files or {}).items()}
    starting = service.programs.run(
        caller,
        body.code,
        language=body.language,
        stdin=given_bytes("stdin", body.stdin, body.stdin_base64),
        args=body.args,
        env=body.env,
        files=files,
        entry=body.entry,
        mounts=body.checked_mounts(),
        limits=body.limits(),
        check=body.check,
        isolation=body.isolation,
        interactive=body.interactive,
        listened=events or body.interactive,
    )
    started = await accepted(request, service, starting)
    if events:
        return of_log(started.log, 0, started.cancel)
    return await answer(request, started, body, view, ends=True)


@operations.get("/v1/runs", scope="read", responses={200: {"model": Page[RunAnswer]}})
async def runs(
    service: TheService,
    caller: TheCaller,
    sandbox: Annotated[str | None, Query(max_length=200)] = None,
    state: Literal["running", "done", "failed", "interrupted"] | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Runs, newest first."""
    found, following = await service.runs.list(caller, sandbox=sandbox, state=state, limit=limit, after=after)
    return Json({"items": [record_json(record) for record in found], "next": following})


@operations.get("/v1/runs/{run_id}", scope="read", responses={200: {"model": RunAnswer}})
async def one(run_id: RunId, service: TheService, caller: TheCaller) -> Response:
    """A run and its outcome."""
    return Json(record_json(await service.runs.record(caller, run_id)))


@operations.get("/v1/runs/{run_id}/events", scope="read", responses=EVENTS)
async def events(
    request: Request,
    run_id: RunId,
    service: TheService,
    caller: TheCaller,
    after: Annotated[int | None, Query(ge=0, le=1 << 50, description="the last event that was seen")] = None,
) -> Response:
    """Attach to a run, again: all its events after the given one."""
    log = await service.runs.follow(caller, run_id)
    if log is None:
        raise RequestRefused(
            410, "gone", "The events of this run are not kept any more.", "GET /v1/runs/{id} has its result."
        )
    return of_log(log, position(request, after))


@operations.post("/v1/runs/{run_id}/cancel", scope="run", body="none", status_code=202)
async def cancel(run_id: RunId, service: TheService, caller: TheCaller) -> Response:
    """Have a run stop; its outcome says so.  One that is over is left as it is."""
    await service.runs.cancel(caller, run_id)
    return Response(status_code=202)


@operations.post("/v1/runs/{run_id}/input", scope="run", body="json", status_code=204)
async def write(run_id: RunId, body: InputBody, service: TheService, caller: TheCaller) -> Response:
    """Input for a run that was started as interactive."""
    await service.runs.write(caller, run_id, body.bytes(), eof=body.eof)
    return Response(status_code=204)


@operations.post("/v1/runs/{run_id}/calls/{call}", scope="run", body="json", status_code=204)
async def respond(
    run_id: RunId,
    call: Annotated[int, Path(ge=0, le=1 << 50)],
    body: AnswerBody,
    service: TheService,
    caller: TheCaller,
) -> Response:
    """The answer to a `tool` or `score` event of a run."""
    service.runs.answer(caller, run_id, call, body.value, body.error)
    return Response(status_code=204)


async def answer(request: Request, run: Run, body: ViewBody, view: str | None, ends: bool = False) -> Response:
    """Wait for a run's end, and tell its result in the form that was asked for; `ends`: with its client."""
    result: Result = await (outcome(request, run, run.cancel) if ends else run.outcome())
    if (body.view or view) != "model":
        return result_response(run)
    if "text/plain" in request.headers.get("accept", ""):
        return PlainTextResponse(result.for_model(body.budget or 2000))
    return Json(model_json(result, run.id, body.budget or 2000))


def result_response(run: Run) -> Response:
    """The whole result of a run that is over."""
    assert run.ended is not None
    return Response(result_json(run.log, run.ended), media_type=Json.media_type)


def record_json(record: RunRecord) -> dict[str, Any]:
    """A run as recorded."""
    told = {name: getattr(record, name) for name in RunAnswer.model_fields if name != "result"}
    told["result"] = None if record.result is None else loads(record.result)
    return told


def _contents(path: str, data: str | Base64) -> str | bytes:
    return data if isinstance(data, str) else from_base64(path, data.base64)
