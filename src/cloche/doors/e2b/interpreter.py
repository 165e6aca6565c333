"""E2B's code interpreter: runs code in contexts and streams the answer line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from cloche import environment, languages, settings
from cloche.doors.e2b.answers import Refusal, answer, json_body, line, refusal
from cloche.doors.e2b.results import ExecutionLines
from cloche.doors.e2b.sandboxes import HOME, E2bSandbox
from cloche.doors.routing.access import UNDECLARED, Access
from cloche.errors import ClocheError, Gone, InvalidRun
from cloche.languages.availability import installed
from cloche.service.event_log import LogEntry
from cloche.service.run import Run
from cloche.service.service import Service
from cloche.service.sessions import ContextInfo

_KEEPALIVE_S = 5.0
_MOMENT_S = 0.02
_SHOWS = {"rows": 5000, "saved": True}  # clients expect whole tables
_TEXT = b"text/plain; charset=utf-8"
_NDJSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_FIRST = ("python", "javascript")  # languages of the contexts that every sandbox has


class InterpreterCall(NamedTuple):
    """One request to the interpreter of a sandbox."""

    scope: Scope
    receive: Receive
    send: Send
    sandbox: E2bSandbox
    name: str  # the context in the path, or an empty text


class InterpreterRoute(NamedTuple):
    """One address of the interpreter, with the access that it declares."""

    handler: Callable[[InterpreterCall], Awaitable[None]]
    access: Access = UNDECLARED


class Interpreter:
    """Answers the requests to port 49999."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.routes: dict[tuple[str, ...], InterpreterRoute] = {  # an empty segment stands for a context's name
            ("POST", "execute"): InterpreterRoute(self._execute, Access("sandbox", "json", stream="run")),
            ("GET", "health"): InterpreterRoute(self._health, Access("public")),
            ("GET", "contexts"): InterpreterRoute(self._list, Access("traffic")),
            ("POST", "contexts"): InterpreterRoute(self._create, Access("traffic", "json")),
            ("POST", "contexts", "", "restart"): InterpreterRoute(self._restart, Access("traffic", "none")),
            ("DELETE", "contexts", ""): InterpreterRoute(self._remove, Access("traffic", "none")),
        }

    def find(self, scope: Scope) -> tuple[InterpreterRoute | None, str]:
        """Return the route of a request to port 49999, and the name of the context in its path."""
        parts = [unquote(part) for part in scope["path"].split("/") if part]
        name = parts[1] if len(parts) > 1 else ""
        return self.routes.get(
            (scope["method"], *("" if place == 1 else part for place, part in enumerate(parts)))
        ), name

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox, route: InterpreterRoute | None, name: str
    ) -> None:
        """Answer an admitted request; errors are plain text on this port."""
        try:
            if route is None:
                raise Refusal(404, "Not Found")
            await route.handler(InterpreterCall(scope, receive, send, sandbox, name))
        except (ClocheError, Refusal) as problem:
            found = problem if isinstance(problem, Refusal) else refusal(problem)
            await answer(send, found.status, found.message.encode(errors="replace"), found.headers, _TEXT)

    async def _health(self, call: InterpreterCall) -> None:
        await answer(call.send, 200, "OK")

    async def _list(self, call: InterpreterCall) -> None:
        await answer(call.send, 200, [_context_json(context) for context in await self._contexts(call.sandbox)])

    async def _restart(self, call: InterpreterCall) -> None:
        context = await self._find(call.sandbox, call.name)
        await self._service.sessions.restart(call.sandbox.acting_caller, call.sandbox.view.id, context.id)
        await answer(call.send, 200)

    async def _remove(self, call: InterpreterCall) -> None:
        context = await self._find(call.sandbox, call.name)
        await self._service.sessions.remove_context(call.sandbox.acting_caller, call.sandbox.view.id, context.id)
        await answer(call.send, 200)

    async def _create(self, call: InterpreterCall) -> None:
        sandbox = call.sandbox
        request = await json_body(call.receive)
        language, cwd = _language(request.get("language") or "python"), str(request.get("cwd") or HOME)
        await self._contexts(sandbox)  # the contexts that every E2B sandbox has come first
        context = await self._service.sessions.create_context(
            sandbox.acting_caller, sandbox.view.id, language, cwd=cwd, make_folder=cwd != HOME
        )
        await answer(call.send, 200, {**_context_json(context), "cwd": cwd})

    async def _execute(self, call: InterpreterCall) -> None:
        _, receive, send, sandbox, _ = call
        request = await json_body(receive)
        code, context, language = request.get("code"), request.get("context_id"), request.get("language")
        if not isinstance(code, str):
            raise Refusal(422, "code is a text.")
        if context and language:
            raise Refusal(400, "Only one of context_id or language can be provided")
        found = None if context is None else await self._find(sandbox, str(context))
        name, known_language = (None, _language(language or "python")) if found is None else (found.id, "")
        caller, sessions = sandbox.acting_caller, self._service.sessions
        if known_language:
            await sessions.default_context(caller, sandbox.view.id, known_language, HOME)
        run = await sessions.run(
            caller,
            sandbox.view.id,
            code,
            language=known_language or None,
            context=name,
            env=request.get("env_vars") or None,
            keep=0,
            shows=_SHOWS,
        )
        lines = ExecutionLines(ends_apart=(known_language if found is None else found.language) == "java")
        await _stream(run, lines, receive, send, sandbox)

    async def _contexts(self, sandbox: E2bSandbox) -> Sequence[ContextInfo]:
        """List the contexts, beginning with those that every E2B sandbox has."""
        caller, sessions = sandbox.acting_caller, self._service.sessions
        for language in _FIRST:
            await sessions.default_context(caller, sandbox.view.id, language, HOME)
        return await sessions.contexts(caller, sandbox.view.id)

    async def _find(self, sandbox: E2bSandbox, name: str) -> ContextInfo:
        for context in await self._contexts(sandbox):
            if context.id == name:
                return context
        raise Refusal(404, f"Context {name} not found")


async def _stream(run: Run, lines: ExecutionLines, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
    """Send the events as they happen; a client that leaves interrupts its code."""
    await send({"type": "http.response.start", "status": 200, "headers": _NDJSON})
    leaving = asyncio.ensure_future(_left(receive))
    leaving.add_done_callback(lambda _: None if leaving.cancelled() else asyncio.ensure_future(run.cancel()))
    try:
        async for batch in run.log.batches(0, _KEEPALIVE_S):
            if sandbox.is_over:
                return  # without an end: the client then checks whether the sandbox is still there
            for body in lines.of(batch) if batch else (line({"type": "keepalive"}),):
                if body and not leaving.done():
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            if lines.is_unfinished and (body := await _rest(run, lines, batch)) and not leaving.done():
                await send({"type": "http.response.body", "body": body, "more_body": True})
    finally:
        leaving.cancel()
    if sandbox.is_over or (run.result is None and isinstance(run.problem, Gone)):
        return
    last = line({"type": "end_of_execution"})
    if run.result is not None and run.result.execution_count is not None:
        last = line({"type": "number_of_executions", "execution_count": run.result.execution_count}) + last
    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _rest(run: Run, lines: ExecutionLines, batch: list[LogEntry]) -> bytes:
    """Return an unfinished line of output, unless more of the line arrives within a moment."""
    await asyncio.sleep(_MOMENT_S)
    return b"" if batch and run.log.last > batch[-1].number and lines.waits() else lines.rest()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _language(name: Any) -> str:
    """Return the language of this name or alias, if it has sessions."""
    try:
        language = languages.find(str(name))
    except InvalidRun:
        language = None
    if language is None or language.kernel is None:
        manifest = environment.manifest(settings.load().environment or environment.location())
        known = ", ".join(each.name for each in installed(manifest) if each.kernel is not None)
        raise Refusal(400, f"The language {name!r:.100} is unknown; known languages: {known}.")
    return language.name


def _context_json(context: ContextInfo) -> dict[str, Any]:
    cwd = context.cwd or HOME
    if cwd == "/sandbox" or cwd.startswith("/sandbox/"):
        cwd = HOME + cwd.removeprefix("/sandbox")
    return {"id": context.id, "language": context.language, "cwd": cwd}
