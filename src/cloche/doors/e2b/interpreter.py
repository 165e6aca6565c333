"""E2B's code interpreter: code in contexts, answered line by line as it runs."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from cloche import languages
from cloche.doors.e2b.answers import Refusal, answer, header, json_body, line, refusal
from cloche.doors.e2b.results import Telling
from cloche.doors.e2b.sandboxes import HOME, E2bSandbox
from cloche.errors import ClocheError, FileProblem, Gone, InvalidRun
from cloche.sandbox.contexts import AsyncContext
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.events import Happened
from cloche.service.runs import Run
from cloche.service.service import Service

_KEEPALIVE_S = 5.0
_MOMENT_S = 0.02
_SHOWS = {"rows": 5000, "saved": True}  # clients want all of a table
_TEXT = b"text/plain; charset=utf-8"
_NDJSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_FIRST = ("python", "javascript")  # contexts that are there from the start
_SPOKEN = frozenset(("python", "javascript", "js", "typescript", "ts", "r", "java", "bash"))


class Interpreter:
    """What clients ask of port 49999."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
        """Answer one request; errors are plain text here."""
        try:
            await self._answer(scope, receive, send, sandbox)
        except (ClocheError, Refusal) as problem:
            found = problem if isinstance(problem, Refusal) else refusal(problem)
            await answer(send, found.status, found.message.encode(errors="replace"), found.headers, _TEXT)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
        method, parts = scope["method"], [unquote(part) for part in scope["path"].split("/") if part]
        match method, parts:
            case "POST", ["execute"]:
                await self._execute(scope, receive, send, sandbox)
            case "GET", ["health"]:
                await answer(send, 200, "OK")
            case "GET", ["contexts"]:
                await answer(send, 200, [_told(context) for context in _all(sandbox)])
            case "POST", ["contexts"]:
                await answer(send, 200, await self._create(receive, sandbox))
            case "POST", ["contexts", name, "restart"]:
                async with sandbox.held.used() as box:
                    await box.restart(_find(sandbox, name))
                sandbox.held.happened("restart", {"context": name})
                await answer(send, 200)
            case "DELETE", ["contexts", name]:
                async with sandbox.held.used() as box:
                    await box.contexts.remove(_find(sandbox, name))
                await answer(send, 200)
            case _:
                raise Refusal(404, "Not Found")

    async def _create(self, receive: Receive, sandbox: E2bSandbox) -> dict[str, Any]:
        told = await json_body(receive)
        language, cwd = _language(told.get("language") or "python"), str(told.get("cwd") or HOME)
        _all(sandbox)  # those that are there from the start come first
        async with sandbox.held.used() as box:
            if cwd != HOME:
                await _make_folder(box, cwd)
            context = await box.contexts.create(language=language, cwd=cwd)
        sandbox.held.happened("context", {"context": context.id})
        return {**_told(context), "cwd": cwd}

    async def _execute(self, scope: Scope, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
        if sandbox.traits.is_secured and not sandbox.is_token(header(scope, b"x-access-token")):
            raise Refusal(401, "Run code with the sandbox's access token: who knows its name alone may only visit it.")
        told = await json_body(receive)
        code, context, language = told.get("code"), told.get("context_id"), told.get("language")
        if not isinstance(code, str):
            raise Refusal(422, "code is a text.")
        if context and language:
            raise Refusal(400, "Only one of context_id or language can be provided")
        name = None if context is None else _find(sandbox, str(context)).id
        spoken = "" if name else _language(language or "python")
        if spoken:
            _at_home(sandbox.held.box.contexts.default(spoken))
        caller = sandbox.caller
        assert caller is not None
        sandbox.held.box.shows = _SHOWS
        run = await self._service.sandboxes.run_cell(
            caller,
            sandbox.held,
            code,
            language=spoken or None,
            context=name,
            env=told.get("env_vars") or None,
            keep=0,
        )
        await _tell(run, receive, send, sandbox)


async def _tell(run: Run, receive: Receive, send: Send, sandbox: E2bSandbox) -> None:
    """Send what happens as it happens; a client that leaves interrupts its code."""
    await send({"type": "http.response.start", "status": 200, "headers": _NDJSON})
    leaving, telling = asyncio.ensure_future(_left(receive)), Telling()
    leaving.add_done_callback(lambda _: None if leaving.cancelled() else asyncio.ensure_future(run.cancel()))
    try:
        async for batch in run.log.batches(0, _KEEPALIVE_S):
            if sandbox.is_over:
                return  # without an end: the client then looks whether the sandbox is there
            told = telling.tell(batch) if batch else line({"type": "keepalive"})
            if telling.is_unfinished:
                told += await _rest(run, telling, batch)
            if told and not leaving.done():
                await send({"type": "http.response.body", "body": told, "more_body": True})
    finally:
        leaving.cancel()
    if sandbox.is_over or (run.result is None and isinstance(run.problem, Gone)):
        return
    last = line({"type": "end_of_execution"})
    if run.result is not None and run.result.execution_count is not None:
        last = line({"type": "number_of_executions", "execution_count": run.result.execution_count}) + last
    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _rest(run: Run, telling: Telling, batch: list[Happened]) -> bytes:
    """The beginning of a line, unless more of it comes in a moment."""
    await asyncio.sleep(_MOMENT_S)
    return b"" if batch and run.log.last > batch[-1].number and telling.waits() else telling.rest()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _language(name: Any) -> str:
    wanted = str(name).strip().lower()
    if wanted not in _SPOKEN:
        raise Refusal(500, f"The language {name!r:.100} is unknown; there are {', '.join(sorted(_SPOKEN))}.")
    try:
        return languages.find(wanted).name
    except InvalidRun:
        raise Refusal(500, f"The language {wanted} is not available on this server.") from None


def _all(sandbox: E2bSandbox) -> list[AsyncContext]:
    """Its contexts, those first that are there from the start."""
    contexts = sandbox.held.box.contexts
    for language in _FIRST:
        _at_home(contexts.default(language))
    return contexts.list()


def _at_home(context: AsyncContext) -> None:
    """One that no code has run in yet begins where E2B's clients expect it."""
    if not context.known and context.cwd is None:
        context.cwd = HOME


async def _make_folder(box: AsyncSandbox, path: str) -> None:
    try:
        await box.files.mkdir(path)
    except FileProblem:
        pass  # it is there, or the context will say what is wrong


def _find(sandbox: E2bSandbox, name: str) -> AsyncContext:
    for context in _all(sandbox):
        if context.id == name:
            return context
    raise Refusal(404, f"Context {name} not found")


def _told(context: AsyncContext) -> dict[str, Any]:
    cwd = context.cwd or HOME
    if cwd == "/sandbox" or cwd.startswith("/sandbox/"):
        cwd = HOME + cwd.removeprefix("/sandbox")
    return {"id": context.id, "language": context.language, "cwd": cwd}
