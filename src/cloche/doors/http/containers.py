"""`/containers`: sandboxes by the names that container runners use, for agents that know them: start, exec, stop."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from cloche import environment, settings
from cloche.doors.http.answers import Page
from cloche.doors.http.bodies import Body, Size, Text
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, page
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.http.streams import accepted, outcome
from cloche.doors.routing.routes import Operations
from cloche.errors import InvalidRun
from cloche.languages.availability import installed
from cloche.model.limits import BY_NAME
from cloche.model.records import SandboxRecord
from cloche.policy.caller import Caller
from cloche.service.commands import CommandRequest
from cloche.service.live import SandboxView
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

operations = Operations("/containers", responses=ERROR_RESPONSES, tag="containers")

KIND = "sandbox"
_TAG = "cloche.container"  # in the metadata of sandboxes that were started here


class KindAnswer(BaseModel):
    """A kind of container that can be started."""

    name: str
    description: str
    languages: list[str]


class ContainerAnswer(BaseModel):
    """A container."""

    id: str
    container: str
    status: str
    created: float
    expires: float | None


class ExecAnswer(BaseModel):
    """The result of a command."""

    stdout: str
    stderr: str
    exit_code: int
    duration: float
    error: str | None


class StoppedAnswer(BaseModel):
    """The containers that were stopped."""

    stopped: list[str]


class StartBody(Body):
    """The container to start."""

    container: str = KIND
    timeout: float | None = Field(None, description="seconds until the container stops")
    memory: Size = BY_NAME["memory"].default
    env: dict[str, str] | None = None


class ExecBody(Body):
    """A command (a shell line or a list of words), or the code of a program."""

    id: str
    command: Text | list[Text] | None = None
    code: Text | None = None
    language: str = "python"
    timeout: float | None = Field(None, description="seconds")


class StopBody(Body):
    """The container to stop."""

    id: str


@operations.get("", scope="read", name="list_kinds", responses={200: {"model": Page[KindAnswer]}})
async def kinds(limit: Limit = 100, after: After = None) -> Response:
    """List the kinds of containers that can be started."""
    about = "Linux under glass: no network, limits on memory, time and disk; files stay until it is stopped."
    manifest = environment.manifest(settings.load().environment or environment.location())
    programs = [language.name for language in await to_thread(installed, manifest)]
    return Json(page([{"name": KIND, "description": about, "languages": programs}], limit, after))


@operations.post("/start", scope="run", body="json", status_code=201, responses={201: {"model": ContainerAnswer}})
async def start(body: StartBody, service: TheService, caller: TheCaller) -> Response:
    """Start a container."""
    if body.container != KIND:
        raise InvalidRun(f"There is no container {body.container!r:.100}.", hint="GET /containers lists them.")
    wanted = NewSandbox(limits={"memory": body.memory}, ttl=body.timeout, env=body.env or {}, metadata={_TAG: KIND})
    return Json(_json((await service.sandboxes.create(caller, wanted)).record), 201)


@operations.post("/exec", scope="run", name="exec", body="json", responses={200: {"model": ExecAnswer}})
async def execute(request: Request, body: ExecBody, service: TheService, caller: TheCaller) -> Response:
    """Run a command in a container and wait for its end.  The command is killed when the client disconnects."""
    is_program = body.code is not None
    wanted = CommandRequest(
        command=body.command,
        code=body.code,
        language=body.language if is_program else None,
        takes_input=False,
        timeout=body.timeout,
    )
    run = await accepted(request, service, service.commands.run(caller, body.id, wanted))
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


@operations.post("/stop", scope="run", body="json", responses={200: {"model": StoppedAnswer}})
async def stop(body: StopBody, service: TheService, caller: TheCaller) -> Response:
    """Stop a container and everything in it.  One that has stopped already is fine."""
    await service.sandboxes.kill(caller, body.id)
    return Json({"stopped": [body.id]})


@operations.get("/status", scope="read", name="list", responses={200: {"model": Page[ContainerAnswer]}})
async def status(
    service: TheService,
    caller: TheCaller,
    id: Annotated[str | None, Query(max_length=200, description="only this container")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """List the containers that run.  With `id`, only that one, even if it has stopped."""
    if id is not None:
        return Json({"items": [_json((await service.sandboxes.info(caller, id)).record)], "next": None})
    return Json(page([_json(view.record) for view in _started(service, caller)], limit, after))


@operations.post("/cleanup", scope="run", body="none", responses={200: {"model": StoppedAnswer}})
async def cleanup(service: TheService, caller: TheCaller) -> Response:
    """Stop all containers of the caller."""
    ended = [view.id for view in _started(service, caller)]
    for identity in ended:
        await service.sandboxes.kill(caller, identity)
    return Json({"stopped": ended})


def _started(service: Service, caller: Caller) -> list[SandboxView]:
    return [view for view in service.sandboxes.living(caller) if _TAG in view.record.metadata]


def _json(record: SandboxRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "container": KIND,
        "status": "running" if record.state == "alive" else record.state,
        "created": record.created,
        "expires": record.expires,
    }
