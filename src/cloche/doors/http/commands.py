"""Commands in a sandbox: start, list, follow, feed and signal them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.gate.bodies import is_json
from cloche.doors.http.answers import CommandAnswer, Page, ResultAnswer
from cloche.doors.http.bodies import CommandBody, InputBody, ResizeBody, SignalBody, checked, from_base64, given_bytes
from cloche.doors.http.dependencies import After, Json, Limit, SandboxId, TheCaller, TheService, page
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.http.runs import EVENTS, result_response
from cloche.doors.http.streams import LargeAnswer, accepted, of_log, outcome, position
from cloche.doors.json_pieces import ResultView, json_pieces
from cloche.doors.routing.routes import Operations
from cloche.results.fields import result_fields
from cloche.service.commands import CommandRequest, StartedCommand
from cloche.service.event_log import PIECE, size_of

operations = Operations("/v1/sandboxes/{sandbox_id}/commands", responses=ERROR_RESPONSES, tag="commands")

Id = Annotated[str, Path(max_length=200)]


@operations.post(
    "",
    scope="run",
    body="json",
    status_code=201,
    responses={
        200: {"model": ResultAnswer, "description": "with `wait`: what it came to"},
        201: {"model": CommandAnswer},
    },
)
async def start(
    request: Request, sandbox_id: SandboxId, body: CommandBody, service: TheService, caller: TheCaller
) -> Response:
    """Start a command, or a program in some language.  With `wait`, the answer comes when it has ended."""
    wanted = CommandRequest(
        command=body.command,
        code=body.code,
        entry=body.entry,
        language=body.language,
        args=body.args,
        check=body.check,
        cwd=body.cwd,
        env=body.env,
        takes_input=body.stdin is not False,
        data=await _input(body),
        timeout=body.timeout,
        build_timeout=body.build_timeout,
        pty=body.pty,
        size=body.size,
    )
    if not body.wait:
        return Json(_json(await service.commands.start(caller, sandbox_id, wanted)), 201)
    run = await accepted(request, service, service.commands.run(caller, sandbox_id, wanted))
    return result_response(run, await outcome(request, run, run.cancel))


@operations.get("", scope="read", name="list", responses={200: {"model": Page[CommandAnswer]}})
async def listed(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None
) -> Response:
    """List the commands that run, and those that ended lately."""
    return Json(page([_json(command) for command in await service.commands.list(caller, sandbox_id)], limit, after))


@operations.get("/{command}", scope="read", name="get", responses={200: {"model": CommandAnswer}})
async def one(sandbox_id: SandboxId, command: Id, service: TheService, caller: TheCaller) -> Response:
    """Get a command, and its result when it has ended."""
    found = await service.commands.follow(caller, sandbox_id, command)
    result = found.result
    if result is None:
        return Json({**_json(found), "result": None})
    size = size_of(result)
    if size <= PIECE:
        return Json({**_json(found), "result": result_fields(result)})
    pieces = json_pieces({**_json(found), "result": ResultView(result)}, found.log)
    return LargeAnswer(pieces, size, Json.media_type)


@operations.get("/{command}/events", scope="read", name="stream_events", stream="reader", responses=EVENTS)
async def events(
    request: Request,
    sandbox_id: SandboxId,
    command: Id,
    service: TheService,
    caller: TheCaller,
    after: Annotated[int | None, Query(ge=0, le=1 << 50)] = None,
) -> Response:
    """Stream the events of a command: `started`, `stdout`, `stderr`, `exit`."""
    found = await service.commands.follow(caller, sandbox_id, command)
    return of_log(found.log, position(request, after))


@operations.post(
    "/{command}/stdin",
    scope="run",
    name="write_input",
    body="input",
    status_code=204,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/InputBody"}},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
async def write(
    request: Request, sandbox_id: SandboxId, command: Id, service: TheService, caller: TheCaller, eof: bool = False
) -> Response:
    """Write to a command's standard input.  The body is JSON, or the bytes themselves."""
    found = await service.commands.find(caller, sandbox_id, command)
    async with found.in_use():
        if is_json(request.headers):
            body = await checked(InputBody, await request.body())
            await found.write(await body.bytes())
            eof = eof or body.eof
        else:
            async for chunk in request.stream():
                await found.write(chunk)
        if eof:
            await found.close_stdin()
    return Response(status_code=204)


@operations.post("/{command}/signal", scope="run", body="json", status_code=204)
async def signal(
    sandbox_id: SandboxId, command: Id, body: SignalBody, service: TheService, caller: TheCaller
) -> Response:
    """Send a signal to a command."""
    await (await service.commands.find(caller, sandbox_id, command)).signal(body.signal)
    return Response(status_code=204)


@operations.post("/{command}/resize", scope="run", body="json", status_code=204)
async def resize(
    sandbox_id: SandboxId, command: Id, body: ResizeBody, service: TheService, caller: TheCaller
) -> Response:
    """Change the size of a command's terminal."""
    await (await service.commands.find(caller, sandbox_id, command)).resize(body.columns, body.rows)
    return Response(status_code=204)


@operations.delete("/{command}", scope="run", body="none", status_code=204)
async def kill(sandbox_id: SandboxId, command: Id, service: TheService, caller: TheCaller) -> Response:
    """Kill a command and every process that it has started."""
    await (await service.commands.find(caller, sandbox_id, command)).kill()
    return Response(status_code=204)


async def _input(body: CommandBody) -> bytes | None:
    if body.stdin_base64 is not None:
        return await from_base64("stdin_base64", body.stdin_base64)
    return await given_bytes("stdin", body.stdin, None) if isinstance(body.stdin, str) else None


def _json(command: StartedCommand) -> dict[str, Any]:
    return {
        "id": command.id,
        "pid": command.pid,
        "command": command.words,
        "pty": command.pty,
        "started": command.started,
        "running": not command.log.over,
        "exit_code": None if command.result is None else command.result.exit_code,
    }
