"""The API of envd, E2B's agent in a sandbox, on port 49983: processes, files and watched folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, time
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from cloche.doors.e2b.answers import Refusal, answer, body
from cloche.doors.e2b.envd import filesystem, processes, transfers, watching
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import (
    ConnectProblem,
    Stream,
    fail,
    last_message,
    message,
    parsed,
    problem_of,
    reply,
)
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.doors.routing.access import UNDECLARED, Access
from cloche.errors import ClocheError

_PROCESS, _FILESYSTEM = "/process.Process/", "/filesystem.Filesystem/"


class EnvdRoute(NamedTuple):
    """One address of envd, with the access that it declares."""

    handler: Callable[[Call], Awaitable[None]]
    access: Access = UNDECLARED
    is_signed: bool = False
    """Whether a signature in the address can replace the token."""


def find(scope: Scope) -> EnvdRoute | None:
    """Return the route of a request to port 49983."""
    path: str = scope["path"]
    return ROUTES.get((scope["method"], path)) or ROUTES.get(("*", path))


async def envd(scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox, route: EnvdRoute | None) -> None:
    """Answer an admitted request."""
    if route is None:
        raise Refusal(404, "There is nothing at this address.")
    await route.handler(Call(scope, receive, send, sandbox))


async def _health(call: Call) -> None:
    await answer(call.send, 204)


async def _envs(call: Call) -> None:
    await answer(call.send, 200, call.sandbox.view.env)


async def _call(run: Callable[[Call, dict[str, Any]], Awaitable[Any]], call: Call) -> None:
    try:
        result = await run(call, await parsed(await body(call.receive)))
    except ConnectProblem as problem:
        await fail(call.send, problem)
    except ClocheError as error:
        await fail(call.send, _problem(call, error))
    else:
        await reply(call.send, result)


async def _stream(run: Callable[[Call, Stream], Awaitable[None]], call: Call) -> None:
    """Run a call whose answer is a stream: a failure is its last message, unless the sandbox itself is gone."""
    stream = Stream(call.receive, call.send)
    call.scope["state"]["last_words"] = lambda error: last_message(problem_of(error))
    try:
        await run(call, stream)
    except ConnectProblem as problem:
        await stream.finish(problem=problem)
    except ClocheError as error:
        await stream.finish(problem=_problem(call, error))
    finally:
        await stream.close()


async def _stream_input(call: Call) -> None:
    stream = Stream(call.receive, call.send)
    try:
        result = await processes.stream_input(call)
    except ConnectProblem as problem:
        await stream.finish(problem=problem)
    except ClocheError as error:
        await stream.finish(problem=_problem(call, error))
    else:
        await stream.finish(message(result))


def _problem(call: Call, error: ClocheError) -> ConnectProblem:
    """Translate an error to Connect's form; raises Refusal if the sandbox is gone."""
    try:
        return problem_of(error)
    except Refusal as refusal:
        refusal.more["sandboxId"] = call.sandbox.id
        raise


async def _metrics(call: Call) -> None:
    usage = await call.service.sandboxes.usage(call.caller, call.identity)
    disk = await call.service.files.disk(call.caller, call.identity)
    limits = call.sandbox.view.limits
    now = monotonic()
    before, spent = call.sandbox.last_metrics or (now - 1.0, usage.cpu_time)
    call.sandbox.last_metrics = now, usage.cpu_time
    await answer(
        call.send,
        200,
        {
            "ts": int(time()),
            "cpu_count": max(1, round(limits.cpu)),
            "cpu_used_pct": round(
                100 * (usage.cpu_time - spent) / max(now - before, 0.001), 2
            ),  # since the last request
            "mem_total": limits.memory_bytes,
            "mem_used": usage.memory,
            "mem_cache": 0,
            "disk_used": usage.disk,
            "disk_total": disk["total"],
        },
    )


ROUTES: dict[tuple[str, str], EnvdRoute] = {
    ("*", "/health"): EnvdRoute(_health, Access("public")),
    ("*", "/files"): EnvdRoute(transfers.files, Access("sandbox", "encoded", stream="file"), is_signed=True),
    ("POST", "/files/compose"): EnvdRoute(transfers.compose, Access("sandbox", "json")),
    ("GET", "/metrics"): EnvdRoute(_metrics, Access("sandbox")),
    ("GET", "/envs"): EnvdRoute(_envs, Access("sandbox")),
    ("POST", f"{_PROCESS}StreamInput"): EnvdRoute(_stream_input, Access("sandbox", "upload")),
    **{
        ("POST", prefix + name): EnvdRoute(partial(_call, run), Access("sandbox", "json"))
        for prefix, calls in ((_PROCESS, processes.CALLS), (_FILESYSTEM, {**filesystem.CALLS, **watching.CALLS}))
        for name, run in calls.items()
    },
    **{
        ("POST", prefix + name): EnvdRoute(partial(_stream, run), Access("sandbox", "envelopes", stream="reader"))
        for prefix, streams in ((_PROCESS, processes.STREAMS), (_FILESYSTEM, watching.STREAMS))
        for name, run in streams.items()
    },
}
