"""`/v1/run` runs a program in its own sandbox; `/v1/runs` gives access to all runs by id."""

from __future__ import annotations

from json import loads
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cloche.doors.http.answers import ModelAnswer, Page, ResultAnswer, RunAnswer
from cloche.doors.http.bodies import AnswerBody, Base64, InputBody, RunBody, ViewBody, from_base64, given_bytes
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, long_answer, service_and_caller
from cloche.doors.http.problems import ERROR_RESPONSES, RequestRefused
from cloche.doors.http.streams import (
    JSON_OR_STREAMED,
    STREAMED,
    LargeAnswer,
    accepted,
    of_log,
    outcome,
    position,
    wants_events,
)
from cloche.doors.pictures import work_for_model
from cloche.doors.routing.routes import Operations
from cloche.doors.shapes import model_json, result_pieces
from cloche.io.tasks import LARGE, off_loop
from cloche.model.records import RunRecord
from cloche.model.result import Result
from cloche.results.fields import result_in_words_of
from cloche.service.event_log import characters_of, size_of
from cloche.service.events import RunEnded
from cloche.service.run import Run

operations = Operations(responses=ERROR_RESPONSES, tag="runs")

_FORMS = {**JSON_OR_STREAMED, "text/plain": {"schema": {"type": "string"}}}
RESULT: dict[int | str, dict[str, Any]] = {
    200: {"model": ResultAnswer | ModelAnswer, "description": "the result of the run", "content": _FORMS}
}
EVENTS: dict[int | str, dict[str, Any]] = {200: {"description": "server-sent events", "content": STREAMED}}
View = Annotated[
    Literal["full", "model"] | None, Query(description="`model` returns the result as a text for a language model")
]
RunId = Annotated[str, Path(max_length=200)]


@operations.post("/v1/run", scope="run", tag="programs", body="json", stream="run", responses=RESULT)
async def run(request: Request, body: RunBody, view: View = None) -> Response:
    """Run a program in a new sandbox.  A client that accepts server-sent events receives the run's events."""
    # Not by FastAPI's dependencies: they take longer than the rest of this function.
    service, caller = service_and_caller(request)
    events = wants_events(request)
    files = {path: await _contents(path, data) for path, data in (body.files or {}).items()}
    starting = service.programs.run(
        caller,
        body.code,
        language=body.language,
        stdin=await given_bytes("stdin", body.stdin, body.stdin_base64),
        args=body.args,
        env=body.env,
        files=files,
        entry=body.entry,
        mounts=body.checked_mounts(),
        network=body.checked_network(),
        packages=body.wanted_packages(),
        environment=body.environment,
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


@operations.get("/v1/runs", scope="read", name="list", responses={200: {"model": Page[RunAnswer]}})
async def runs(
    service: TheService,
    caller: TheCaller,
    sandbox: Annotated[str | None, Query(max_length=200)] = None,
    state: Literal["running", "done", "failed", "interrupted"] | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """List runs, newest first."""
    found, following = await service.runs.list(caller, sandbox=sandbox, state=state, limit=limit, after=after)
    return Json({"items": [record_json(record) for record in found], "next": following})


@operations.get("/v1/runs/{run_id}", scope="read", name="get", responses={200: {"model": RunAnswer}})
async def one(run_id: RunId, service: TheService, caller: TheCaller) -> Response:
    """Get a run and its result."""
    return Json(record_json(await service.runs.record(caller, run_id)))


@operations.get("/v1/runs/{run_id}/events", scope="read", name="stream_events", stream="reader", responses=EVENTS)
async def events(
    request: Request,
    run_id: RunId,
    service: TheService,
    caller: TheCaller,
    after: Annotated[
        int | None, Query(ge=0, le=1 << 50, description="the number of the last event that the client has seen")
    ] = None,
) -> Response:
    """Stream the events of a run, beginning after event number `after`."""
    log = await service.runs.follow(caller, run_id)
    if log is None:
        raise RequestRefused(
            410, "gone", "The events of this run are no longer available.", "GET /v1/runs/{id} has its result."
        )
    return of_log(log, position(request, after))


@operations.post("/v1/runs/{run_id}/cancel", scope="run", body="none", status_code=202)
async def cancel(run_id: RunId, service: TheService, caller: TheCaller) -> Response:
    """Cancel a run; its result reports that.  A run that has ended is not changed."""
    await service.runs.cancel(caller, run_id)
    return Response(status_code=202)


@operations.post("/v1/runs/{run_id}/input", scope="run", name="write_input", body="json", status_code=204)
async def write(run_id: RunId, body: InputBody, service: TheService, caller: TheCaller) -> Response:
    """Send input to a run that was started with `interactive`."""
    await service.runs.write(caller, run_id, await body.bytes(), eof=body.eof)
    return Response(status_code=204)


@operations.post("/v1/runs/{run_id}/calls/{call}", scope="run", name="answer_call", body="json", status_code=204)
async def respond(
    run_id: RunId,
    call: Annotated[int, Path(ge=0, le=1 << 50)],
    body: AnswerBody,
    service: TheService,
    caller: TheCaller,
) -> Response:
    """Answer a `tool` or `score` event of a run."""
    service.runs.answer(caller, run_id, call, body.value, body.error)
    return Response(status_code=204)


async def answer(request: Request, run: Run, body: ViewBody, view: str | None, ends: bool = False) -> Response:
    """Wait for a run and return its result in the requested form; `ends`: cancel the run if its client leaves."""
    result: Result = await (outcome(request, run, run.cancel) if ends else run.outcome())
    if (body.view or view) != "model":
        return result_response(run, result)
    if "text/plain" in request.headers.get("accept", ""):
        size = characters_of(result, LARGE)
        return PlainTextResponse(
            await off_loop(size, lambda: result_in_words_of("http", result).for_model(body.budget or 2000))
        )
    size = work_for_model(result)
    return await long_answer(result, lambda: model_json(result, run.id, body.budget or 2000), size=size)


def result_response(run: Run, result: Result) -> Response:
    """Return the whole result of a run that has ended."""
    ended = run.ended or RunEnded(run.id, run.record.context, result)
    if ended.recorded:
        return Response(ended.recorded, media_type=Json.media_type)
    return LargeAnswer(result_pieces(run.log, ended), size_of(result), Json.media_type)


def record_json(record: RunRecord) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in RunAnswer.model_fields if name != "result"}
    fields["result"] = None if record.result is None else loads(record.result)
    return fields


async def _contents(path: str, data: str | Base64) -> str | bytes:
    return data if isinstance(data, str) else await from_base64(path, data.base64)
