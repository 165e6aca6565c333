"""Commands in a sandbox: started, listed, listened to, fed, signalled."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche import languages
from cloche.doors.http.answers import CommandAnswer, Page, ResultAnswer
from cloche.doors.http.bodies import CommandBody, InputBody, ResizeBody, SignalBody, checked, from_base64, given_bytes
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheSandbox, TheService, page
from cloche.doors.http.problems import ALWAYS
from cloche.doors.http.runs import EVENTS
from cloche.doors.http.streams import accepted, of_log, outcome, position
from cloche.errors import InvalidRun
from cloche.model.result import Result
from cloche.sandbox.processes import AsyncProcess
from cloche.service.commands import Command
from cloche.service.held import Held
from cloche.service.runs import Run
from cloche.service.shapes import result_json

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}/commands", responses=ALWAYS, tags=["commands"])

Id = Annotated[str, Path(max_length=200)]


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": ResultAnswer, "description": "with `wait`: what it came to"},
        201: {"model": CommandAnswer},
    },
    response_class=Response,
)
async def start(
    request: Request, held: TheSandbox, body: CommandBody, service: TheService, caller: TheCaller
) -> Response:
    """Start a command, or a program in some language; with `wait`, answer when it has ended."""
    if (body.command is None) == (body.code is None and body.entry is None):
        raise InvalidRun("Give either a command, or the code of a program.")
    service.sandboxes.check_timeout(body.timeout)
    if not body.wait:
        held.commands.check_room()
        process = await _start(held, body, stdin=body.stdin is not False)
        data = _input(body)
        if data is not None:
            await process.feed(data)  # before anybody else listens, and feeds it, too
        command = held.commands.add(process, _words(body), body.pty)
        return Json(_json(command), 201)
    data = _input(body)

    async def work(run: Run) -> Result:
        async with held.used(saves=False):
            if body.command is not None:
                timeout = held.limits.timeout_s if body.timeout is None else body.timeout
                limited = body.model_copy(update={"timeout": timeout})
                process = await _start(held, limited, stdin=data is not None, whole=True)
            else:
                process = await _start(held, body, stdin=data is not None)
            run.stop = process.kill
            result = await process.finish(data, run.tell)
            await held.save_after(result)
            return result

    code = body.code if body.code is not None else str(_words(body))
    language = "command" if body.command is not None else languages.of(body.language, body.code, body.entry)
    starting = service.sandboxes.run(caller, held, work, code, language, bytes_moved=len(data or b""))
    run = await accepted(request, service, starting)
    await outcome(request, run, run.cancel)
    return Response(run.told, media_type=Json.media_type)


async def _start(held: Held, body: CommandBody, stdin: bool, whole: bool = False) -> AsyncProcess:
    if body.command is None:
        process = await held.box.start_program(
            body.code,
            language=body.language,
            entry=body.entry,
            args=body.args,
            env=body.env,
            cwd=body.cwd,
            timeout=body.timeout,
            build_timeout=body.build_timeout,
            check=body.check,
            stdin=stdin,
        )
        if not body.wait:
            await process.started()
        return process
    return await held.box.commands.start(
        body.command,
        cwd=body.cwd,
        env=body.env,
        pty=body.pty,
        size=body.size,
        stdin=stdin,
        timeout=body.timeout,
        stop_at_output_limit=whole,
    )


@router.get("", responses={200: {"model": Page[CommandAnswer]}}, response_class=Response)
async def listed(held: TheSandbox, limit: Limit = 100, after: After = None) -> Response:
    """Those that run, and those that ended lately."""
    return Json(page([_json(command) for command in held.commands.all()], limit, after))


@router.get("/{command}", responses={200: {"model": CommandAnswer}}, response_class=Response)
async def one(held: TheSandbox, command: Id) -> Response:
    """A command, and its result when it has ended."""
    found = held.commands.find(command)
    told = _json(found)
    told["result"] = None if found.result is None else result_json(found.result)
    return Json(told)


@router.get("/{command}/events", responses=EVENTS, response_class=Response)
async def events(
    request: Request,
    held: TheSandbox,
    command: Id,
    after: Annotated[int | None, Query(ge=0, le=1 << 50)] = None,
) -> Response:
    """What it prints, as it happens: started, stdout, stderr, exit."""
    return of_log(held.commands.find(command).log, position(request, after))


@router.post("/{command}/stdin", status_code=204, response_class=Response)
async def write(request: Request, held: TheSandbox, command: Id, eof: bool = False) -> Response:
    """More of its standard input: JSON, or the bytes themselves as the body."""
    process = held.commands.find(command).process
    async with held.used():
        if request.headers.get("content-type", "").startswith("application/json"):
            body = checked(InputBody, await request.body())
            await process.write(body.bytes())
            eof = eof or body.eof
        else:
            async for chunk in request.stream():
                await process.write(chunk)
        if eof:
            await process.close_stdin()
    return Response(status_code=204)


@router.post("/{command}/signal", status_code=204, response_class=Response)
async def signal(held: TheSandbox, command: Id, body: SignalBody) -> Response:
    """Send it a signal."""
    await held.commands.find(command).process.signal(body.signal)
    return Response(status_code=204)


@router.post("/{command}/resize", status_code=204, response_class=Response)
async def resize(held: TheSandbox, command: Id, body: ResizeBody) -> Response:
    """Change the size of its terminal."""
    await held.commands.find(command).process.resize(body.columns, body.rows)
    return Response(status_code=204)


@router.delete("/{command}", status_code=204, response_class=Response)
async def kill(held: TheSandbox, command: Id) -> Response:
    """Kill it, with everything it has started."""
    await held.commands.find(command).process.kill()
    return Response(status_code=204)


def _input(body: CommandBody) -> bytes | None:
    if body.stdin_base64 is not None:
        return from_base64("stdin_base64", body.stdin_base64)
    return given_bytes("stdin", body.stdin, None) if isinstance(body.stdin, str) else None


def _words(body: CommandBody) -> str | list[str]:
    words: str | list[str] = body.entry or body.language or "python" if body.command is None else body.command
    return words


def _json(command: Command) -> dict[str, Any]:
    return {
        "id": command.id,
        "pid": command.pid,
        "command": command.words,
        "pty": command.pty,
        "started": command.started,
        "running": not command.log.over,
        "exit_code": None if command.result is None else command.result.exit_code,
    }
