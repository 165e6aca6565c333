"""A sandbox on a server: the same class and the same methods as one of this process, over HTTP."""

from __future__ import annotations

from _collections_abc import Callable, Iterable, Mapping, Sequence
from collections import deque
from time import time
from uuid import uuid4

from cloche import languages, settings
from cloche.client import shapes
from cloche.client.attempts import AsyncRemoteAttempt, attempt, best_of
from cloche.client.cells import AsyncRemoteCell
from cloche.client.checkpoints import AsyncRemoteCheckpoints
from cloche.client.commands import AsyncRemoteCommands, AsyncRemoteProcess
from cloche.client.contexts import AsyncRemoteContexts
from cloche.client.feed import AsyncFeed
from cloche.client.files import AsyncRemoteFiles
from cloche.client.server import AsyncServer, checked_key, server_at
from cloche.engine.box import AsyncEvents
from cloche.engine.checkpoints import MAX_CHECKPOINTS
from cloche.engine.contexts import AsyncContext
from cloche.engine.sandbox import MAX_HISTORY, AsyncSandbox
from cloche.engine.tools import AsyncTools
from cloche.errors import Gone, InvalidRun
from cloche.io.tasks import AsyncLock, pause
from cloche.model.events import Event
from cloche.model.files import Mount
from cloche.model.history import Best, Moment, Restored
from cloche.model.limits import Limits, within
from cloche.model.result import Result, Usage
from cloche.sandbox.checks import (
    checked_args,
    checked_check,
    checked_code,
    checked_cwd,
    checked_data,
    checked_env,
    checked_mounts,
    checked_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.ports import AsyncRemotePorts
    from cloche.sandbox.checks import Data

_LONGEST_S = 366 * 86400
_REASONS = {"its time was up": "timeout", "it needed too much memory": "memory", "it was ended by its owner": "closed"}


def the_server(url: str | None, api_key: str | None) -> AsyncServer:
    """The server that is meant, by what the caller says or else the environment."""
    known = settings.load()
    return server_at((url or known.url or "").rstrip("/"), checked_key(api_key or known.api_key or ""))


class AsyncRemoteSandbox(AsyncSandbox):
    """What `AsyncSandbox(url=…)` makes."""

    contexts: AsyncRemoteContexts
    checkpoints: AsyncRemoteCheckpoints

    def __init__(
        self,
        *,
        timeout: float | None = 30,
        memory: int | str = "512M",
        cpu: float = 1.0,
        disk: int | str = "1G",
        processes: int = 64,
        output: int | str = "10M",
        build_timeout: float | None = 60,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[str, str] | Sequence[Mount] = (),
        lifetime: float | None = None,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        undo: bool = False,
        checkpoints: int = MAX_CHECKPOINTS,
        isolation: str = "auto",
        wall: None = None,  # noqa: ARG002  (whoever gives one has it on this host)
        url: str | None = None,
        api_key: str | None = None,
        id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idle_timeout: float | None = None,
        persistent: bool = False,
        workspace: str | None = None,
    ) -> None:
        self.server = the_server(url, api_key)
        self.limits = Limits.of(timeout, memory, cpu, disk, processes, output, build_timeout)
        self.env, self.wall = checked_env(env), ""
        self.tools = AsyncTools(tools)
        self.files, self.commands = AsyncRemoteFiles(self), AsyncRemoteCommands(self)
        self.contexts = AsyncRemoteContexts(self)
        self.checkpoints = AsyncRemoteCheckpoints(self, checkpoints)
        self.id, self.workspace = id, workspace
        self.metadata = dict(metadata or {})
        self._wish = {
            **shapes.limits_asked(self.limits),
            "env": self.env,
            "mounts": shapes.mounts(checked_mounts(mounts)),
            "ttl": None if lifetime is None else within("lifetime", lifetime, 0.001, _LONGEST_S, "seconds"),
            "idle_timeout": idle_timeout,
            "metadata": self.metadata,
            "tools": self.tools.names(),
            "undo": bool(undo),
            "checkpoints": checkpoints,
            "persistent": bool(persistent),
            "workspace": workspace,
            "isolation": isolation,
        }
        self._idempotency_key = uuid4().hex
        self._is_guest = id is not None  # somebody else has made it, and will end it
        self._is_open = self._ended = self.closed = False
        self._opening = AsyncLock()
        self._undo = undo
        self._history: deque[Moment] = deque(maxlen=MAX_HISTORY)

    @property
    def ports(self) -> AsyncRemotePorts:
        """Servers inside."""
        from cloche.client.ports import AsyncRemotePorts  # and with it a WebSocket library

        return AsyncRemotePorts(self)

    # --- its life

    async def open(self) -> None:
        """Start it, or find the one that was named; done by `with`, and by the first use."""
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        if not self._is_open:
            async with self._opening:
                if not self._is_open:
                    await self._open()

    async def _open(self) -> None:
        if self.id is None:
            key = f"Idempotency-Key: {self._idempotency_key}\r\n"
            told = await self.server.call("POST", "/v1/sandboxes", self._wish, headers=key, safe=True)
        else:
            told = await self.server.call("GET", f"/v1/sandboxes/{shapes.quoted(self.id)}")
            if told["state"] != "alive":
                raise Gone(f"The sandbox has ended: {told['reason'] or told['state']}.", hint="Make a new one.")
        self.id, self.workspace = told["id"], told["workspace"]
        self.limits, self.wall, self.metadata = shapes.limits(told["limits"]), told["wall"], told["metadata"]
        self._is_open = True
        if self._is_guest:
            await self._refresh()

    async def close(self) -> None:
        """End it, with all that is in it, and wait until nothing of it is left; one that was named lives on."""
        if self._is_guest:
            self._ended = self.closed = True
        else:
            await self.kill()

    async def kill(self) -> None:
        """End it, also one that somebody else has made."""
        self._ended = self.closed = True
        if self.id is not None:
            await self.server.call("DELETE", self.path(""), timeout=None)

    async def pause(self) -> None:
        """Have nothing in it run until `resume`."""
        await self.call("POST", "/pause", safe=True)

    async def resume(self) -> None:
        """Have it go on where it was."""
        await self.call("POST", "/resume", safe=True)

    async def set_lifetime(self, seconds: float | None) -> None:
        """Have the sandbox end by itself so long from now; None: as late as the server allows."""
        await self.call("PATCH", "", {"ttl": seconds}, safe=True)

    async def usage(self) -> Usage:
        """What the sandbox uses now."""
        return shapes.usage(await self.call("GET", "/usage"))

    async def ended(self) -> str:
        """Wait until it has ended, for whatever reason, and tell it."""
        if self.id is None:
            if self.closed:
                return "closed"
            await self.open()
        feed = AsyncFeed(self.server, again=self.path("/events"))
        try:
            while True:
                event = await feed.next()
                if event is None or event[0] == "sandbox.ended":
                    break
        except Gone:
            pass  # it has ended already
        finally:
            feed.close()
        while (told := await self.server.call("GET", self.path("")))["state"] == "alive":
            await pause(0.02)  # it is about to end
        return _REASONS.get(told["reason"], str(told["reason"]))

    # --- sessions

    async def interrupt(self, context: str | AsyncContext | None = None) -> None:
        """Have what runs stop, in one context or in all; variables stay."""
        if context is not None:
            await self.contexts.get(context).interrupt()
        elif self._is_open:
            await self.call("POST", "/interrupt", {}, safe=True)

    async def undo(self) -> Restored:
        """Go back to before the last run; again, to before the one before it.  Wants `Sandbox(undo=True)`."""
        restored = await self.checkpoints.undo()
        self._history.append(Moment("undo", time()))
        return restored

    async def attempt(
        self, code: str, *, context: str | AsyncContext | None = None, timeout: float | None = None
    ) -> AsyncRemoteAttempt:
        """Run code in a branch and see what it changes; then `keep()` it or `discard()` it."""
        request = await self._trial(context, timeout)
        return await attempt(self, {"code": checked_code(code), **request})

    async def best_of(
        self,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        *,
        context: str | AsyncContext | None = None,
        timeout: float | None = None,
    ) -> Best:
        """Run candidates in branches from here, and go on as the one with the highest score."""
        return await best_of(self, {"candidates": candidates, **await self._trial(context, timeout)}, score)

    async def _trial(self, context: str | AsyncContext | None, timeout: float | None) -> dict[str, Any]:
        self.limits_with(timeout)
        where = await self._living(context)
        await where.take()  # nothing of ours runs in it, not even the code that called the tool that calls this
        await where.free(None)
        return {"context": None if self.is_default(where) else where.id, "timeout": timeout}

    async def _start(
        self,
        code: str,
        language: str | None,
        context: str | AsyncContext | None,
        has_input: bool | str,
        env: Mapping[str, str] | None,
        timeout: float | None,
        keep: int,
    ) -> tuple[AsyncRemoteCell, AsyncContext]:
        request: dict[str, Any] = {"code": checked_code(code), "env": checked_env(env) or None, "keep": keep}
        self.limits_with(timeout)
        where = self._context(language, context)
        request["timeout"] = timeout
        request["language"] = where.language if language is None else languages.find(language).name
        if not self.is_default(where):
            request["context"] = where.id
        if has_input == "interactive":
            request["interactive"] = True
        await self.open()
        await where.take()
        cell = AsyncRemoteCell(self, request)
        where.occupy(cell)
        return cell, where

    def is_default(self, context: AsyncContext) -> bool:
        """Is it one that the server makes when it is first wanted?"""
        spoken = languages.find(context.language)
        return context.id == (spoken.context or spoken.name)

    async def ran(self) -> None:
        """A cell has run; with `undo`, there is a checkpoint of before."""
        if self._undo:
            await self.checkpoints.refresh()

    async def refresh(self) -> None:
        """Learn what there is now, after something that changed more than it tells."""
        await self.open()
        await self._refresh()

    async def _refresh(self) -> None:
        await self.contexts.refresh()
        await self.checkpoints.refresh()
        told = await self.server.items(self.path("/history"))
        self._history.clear()
        self._history.extend(map(shapes.moment, told))

    # --- programs

    async def run_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        stdin: str | bytes | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
    ) -> Result:
        """Run a program to its end, in this sandbox, in a process of its own."""
        data = None if stdin is None else checked_data("stdin", stdin)
        asked = self._program(code, language, entry, args, env, cwd, timeout, build_timeout, check)
        return await self.run_command(asked, data)

    async def start_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
        stdin: bool = True,
        ends_sandbox: bool = False,  # noqa: ARG002  (nothing depends on it)
        files: Iterable[str] | None = None,  # noqa: ARG002  (the server looks)
    ) -> AsyncRemoteProcess:
        """Start a program and return at once."""
        request = self._program(code, language, entry, args, env, cwd, timeout, build_timeout, check)
        return await self.start_command({**request, "stdin": bool(stdin)})

    def stream_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
    ) -> AsyncRemoteEvents:
        """Run a program; iterate over its events as they happen: building, started, stdout, stderr, exit."""
        data = None if stdin is None else checked_data("stdin", stdin)
        options = {
            "language": language,
            "entry": entry,
            "args": args,
            "env": env,
            "cwd": cwd,
            "timeout": timeout,
            "build_timeout": build_timeout,
            "check": check,
        }
        return AsyncRemoteEvents(self, code, data, options)

    def _program(
        self,
        code: str | None,
        language: str | None,
        entry: str | None,
        args: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | None,
        timeout: float | None,
        build_timeout: float | None,
        check: str,
    ) -> dict[str, Any]:
        if code is None and entry is None:
            raise InvalidRun("There is nothing to run.", hint="Give code, or the entry among the sandbox's files.")
        self.limits_with(timeout)
        return {
            "code": None if code is None else checked_code(code),
            "language": None if language is None else languages.find(language).name,
            "entry": None if entry is None else checked_path(entry),
            "args": checked_args(args),
            "env": checked_env(env),
            "cwd": checked_cwd(cwd),
            "timeout": timeout,
            "build_timeout": build_timeout,
            "check": checked_check(check),
        }

    async def run_command(self, request: dict[str, Any], stdin: Data | None) -> Result:
        """Have a command or a program run to its end."""
        given = {"stdin": False} if stdin is None else shapes.given("stdin", stdin)
        return shapes.result(await self.call("POST", "/commands", {**request, **given, "wait": True}, timeout=None))

    async def start_command(self, request: dict[str, Any]) -> AsyncRemoteProcess:
        """Have a command or a program started."""
        return AsyncRemoteProcess(self, await self.call("POST", "/commands", request))

    # --- requests

    def path(self, rest: str) -> str:
        """The address of something of this sandbox."""
        assert self.id is not None
        return f"/v1/sandboxes/{self.id}{rest}"

    async def call(self, method: str, path: str, told: Any = None, **how: Any) -> Any:
        """Ask for something, of this sandbox unless the path says otherwise."""
        await self.open()
        return await self.server.call(method, self._whole(path), told, **how)

    async def items(self, path: str) -> list[dict[str, Any]]:
        """All of a list."""
        await self.open()
        return await self.server.items(self._whole(path))

    async def feed(self, method: str, path: str, told: Any = None) -> AsyncFeed:
        """Ask for something that is answered with events."""
        await self.open()
        body = b"" if told is None else shapes.json(told)
        answer = await self.server.ask(method, self._whole(path), body, accept="text/event-stream", timeout=None)
        return AsyncFeed(self.server, answer)

    def post_soon(self, method: str, path: str) -> None:
        """Ask for something from where nothing can be awaited."""
        if not self._ended:
            self.server.post(method, path)

    def _whole(self, path: str) -> str:
        return path if path.startswith("/v1/") else self.path(path)


class AsyncRemoteEvents(AsyncEvents):
    """The events of one program, in order."""

    _box: AsyncRemoteSandbox

    async def __anext__(self) -> Event:
        if self._process is None:
            request = self._box._program(self._code, **self._options)
            given = {"stdin": False} if self._stdin is None else shapes.given("stdin", self._stdin)
            self._process = await self._box.start_command({**request, **given})
        return await super().__anext__()
