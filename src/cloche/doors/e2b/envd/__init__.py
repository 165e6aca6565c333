"""E2B's agent in a sandbox, as its clients see it on port 49983: processes, files, watched folders."""

from __future__ import annotations

from time import monotonic, time

from starlette.types import Receive, Scope, Send

from cloche.doors.e2b.answers import Refusal, answer, body
from cloche.doors.e2b.envd import filesystem, processes, transfers, watching
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import Problem, Stream, fail, message, parsed, problem_of, reply
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.errors import ClocheError

_PROCESS, _FILESYSTEM = "/process.Process/", "/filesystem.Filesystem/"
_CALLS = {
    **{_PROCESS + name: handler for name, handler in processes.CALLS.items()},
    **{_FILESYSTEM + name: handler for name, handler in filesystem.CALLS.items()},
    **{_FILESYSTEM + name: handler for name, handler in watching.CALLS.items()},
}
_STREAMS = {
    **{_PROCESS + name: handler for name, handler in processes.STREAMS.items()},
    **{_FILESYSTEM + name: handler for name, handler in watching.STREAMS.items()},
}
_NOTE = "e2b.metrics"
_STREAM_INPUT = _PROCESS + "StreamInput"


async def envd(scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
    """Answer a request to port 49983."""
    call = Call(scope, receive, send, sandbox)
    path, method = scope["path"], scope["method"]
    if path == "/health":
        await answer(send, 204)
        return
    if path == "/files":
        await transfers.files(call)
        return
    if not sandbox.is_token(call.headers.get(b"x-access-token", "")):
        raise Refusal(401, "unauthorized access, please provide a valid access token or method signing if supported")
    if method == "POST" and path in _CALLS:
        await _call(call, path)
    elif method == "POST" and path in _STREAMS:
        await _stream(call, path)
    elif method == "POST" and path == _STREAM_INPUT:
        await _stream_input(call)
    elif method == "POST" and path == "/files/compose":
        await transfers.compose(call)
    elif method == "GET" and path == "/metrics":
        await _metrics(call)
    elif method == "GET" and path == "/envs":
        await answer(send, 200, dict(call.box.env))
    else:
        raise Refusal(404, "There is nothing at this address.")


async def _call(call: Call, path: str) -> None:
    try:
        told = await _CALLS[path](call, parsed(await body(call.receive)))
    except Problem as problem:
        await fail(call.send, problem)
    except ClocheError as error:
        await fail(call.send, _problem(call, error))
    else:
        await reply(call.send, told)


async def _stream(call: Call, path: str) -> None:
    """Run a call whose answer is a stream; what goes wrong is told at its end, unless the sandbox is gone."""
    stream = Stream(call.receive, call.send)
    try:
        await _STREAMS[path](call, stream)
    except Problem as problem:
        await stream.finish(problem=problem)
    except ClocheError as error:
        await stream.finish(problem=_problem(call, error))
    finally:
        await stream.close()


async def _stream_input(call: Call) -> None:
    stream = Stream(call.receive, call.send)
    try:
        told = await processes.stream_input(call)
    except Problem as problem:
        await stream.finish(problem=problem)
    except ClocheError as error:
        await stream.finish(problem=_problem(call, error))
    else:
        await stream.finish(message(told))


def _problem(call: Call, error: ClocheError) -> Problem:
    """What went wrong; raises that the sandbox is gone."""
    try:
        return problem_of(error)
    except Refusal as refusal:
        refusal.more["sandboxId"] = call.sandbox.id
        raise


async def _metrics(call: Call) -> None:
    usage = await call.box.usage()
    disk = await call.box.files.disk()
    limits = call.box.limits
    now = monotonic()
    before, spent = call.held.notes.get(_NOTE, (now - 1.0, usage.cpu_time))
    call.held.notes[_NOTE] = now, usage.cpu_time
    await answer(
        call.send,
        200,
        {
            "ts": int(time()),
            "cpu_count": max(1, round(limits.cpu)),
            "cpu_used_pct": round(100 * (usage.cpu_time - spent) / max(now - before, 0.001), 2),  # since last asked
            "mem_total": limits.memory_bytes,
            "mem_used": usage.memory,
            "mem_cache": 0,
            "disk_used": usage.disk,
            "disk_total": disk["total"],
        },
    )
