"""`/containers`: sandboxes in the words of container runners, for agents that know those (D4): start, exec, stop."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from cloche import languages
from cloche.doors.http.answers import Page
from cloche.doors.http.bodies import Body, Size, Text
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheService, held_of, page
from cloche.doors.http.problems import ALWAYS
from cloche.doors.http.streams import outcome
from cloche.errors import InvalidRun
from cloche.model.records import SandboxRecord
from cloche.model.result import Result
from cloche.sandbox.processes import AsyncProcess
from cloche.service.held import Held
from cloche.service.runs import Run

router = APIRouter(prefix="/containers", responses=ALWAYS, tags=["containers"])

KIND = "sandbox"
_TAG = "cloche.container"  # in the metadata of those that were started here


class KindAnswer(BaseModel):
    """What can be started."""

    name: str
    description: str
    languages: list[str]


class ContainerAnswer(BaseModel):
    """One that was started."""

    id: str
    container: str
    status: str
    created: float
    expires: float | None


class ExecAnswer(BaseModel):
    """What a command came to."""

    stdout: str
    stderr: str
    exit_code: int
    duration: float
    error: str | None


class StoppedAnswer(BaseModel):
    """Which were ended."""

    stopped: list[str]


class StartBody(Body):
    """What to start."""

    container: str = KIND
    timeout: float | None = Field(None, description="seconds that it lives")
    memory: Size = "512M"
    env: dict[str, str] | None = None


class ExecBody(Body):
    """A command (a shell line or a list of words), or the code of a program."""

    id: str
    command: Text | list[Text] | None = None
    code: Text | None = None
    language: str = "python"
    timeout: float | None = Field(None, description="seconds")


class StopBody(Body):
    """Which to end."""

    id: str


@router.get("", responses={200: {"model": Page[KindAnswer]}}, response_class=Response)
async def kinds(limit: Limit = 100, after: After = None) -> Response:
    """What can be started."""
    about = "Linux under glass: no network, limits on memory, time and disk; files stay until it is stopped."
    programs = languages.names()
    return Json(page([{"name": KIND, "description": about, "languages": programs}], limit, after))


@router.post("/start", status_code=201, responses={201: {"model": ContainerAnswer}}, response_class=Response)
async def start(body: StartBody, service: TheService, caller: TheCaller) -> Response:
    """Start one."""
    if body.container != KIND:
        raise InvalidRun(f"There is no container {body.container!r:.100}.", hint="GET /containers lists them.")
    wish = {"ttl": body.timeout, "memory": body.memory, "env": body.env, "metadata": {_TAG: KIND}}
    return Json(_json(await service.sandboxes.create(caller, wish)), 201)


@router.post("/exec", responses={200: {"model": ExecAnswer}}, response_class=Response)
async def execute(request: Request, body: ExecBody, service: TheService, caller: TheCaller) -> Response:
    """Run a command in one, and wait for its end; who leaves ends it."""
    if (body.command is None) == (body.code is None):
        raise InvalidRun("Give either a command, or the code of a program.")
    held = await held_of(request, body.id)

    async def work(run: Run) -> Result:
        async with held.used():
            process = await _start(held, body)
            run.stop = process.kill
            return await process.finish(None, run.tell)

    told = body.code if body.code is not None else str(body.command)
    language = body.language if body.code is not None else "command"
    run = await service.sandboxes.run(caller, held, work, told, language)
    result = await outcome(request, run, run.cancel)
    return Json(
        {
            "stdout": result.stdout,
            "stderr": result.stderr,
            "exit_code": result.exit_code,
            "duration": result.duration,
            "error": None if result.error is None else result.error.message,
        }
    )


async def _start(held: Held, body: ExecBody) -> AsyncProcess:
    if body.code is not None:
        return await held.box.start_program(body.code, language=body.language, timeout=body.timeout, stdin=False)
    assert body.command is not None
    timeout = held.limits.timeout_s if body.timeout is None else body.timeout
    return await held.box.commands.start(body.command, stdin=False, timeout=timeout, stop_at_output_limit=True)


@router.post("/stop", responses={200: {"model": StoppedAnswer}}, response_class=Response)
async def stop(body: StopBody, service: TheService, caller: TheCaller) -> Response:
    """End one, with all that is in it; one that has ended already is fine."""
    await service.sandboxes.kill(caller, body.id)
    return Json({"stopped": [body.id]})


@router.get("/status", responses={200: {"model": Page[ContainerAnswer]}}, response_class=Response)
async def status(
    service: TheService,
    caller: TheCaller,
    id: Annotated[str | None, Query(max_length=200, description="only this one")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Those that run; with `id` that one, also when it has ended."""
    if id is not None:
        return Json({"items": [_json(await service.sandboxes.record(caller, id))], "next": None})
    return Json(page([_json(held.record) for held in _started(service, caller)], limit, after))


@router.post("/cleanup", responses={200: {"model": StoppedAnswer}}, response_class=Response)
async def cleanup(service: TheService, caller: TheCaller) -> Response:
    """End all that were started here."""
    ended = _started(service, caller)
    for held in ended:
        await service.sandboxes.kill(caller, held.id)
    return Json({"stopped": [held.id for held in ended]})


def _started(service: TheService, caller: TheCaller) -> list[Held]:
    return [held for held in service.sandboxes.alive() if held.owner == caller.owner and _TAG in held.record.metadata]


def _json(record: SandboxRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "container": KIND,
        "status": "running" if record.state == "alive" else record.state,
        "created": record.created,
        "expires": record.expires,
    }
