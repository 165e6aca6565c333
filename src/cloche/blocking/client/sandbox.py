# Generated from src/cloche/client/sandbox.py by scripts/blocking.py: edit that file instead.
"""A sandbox on a server: the same class and the same methods as one of this process, over HTTP."""

from __future__ import annotations

from _collections_abc import Callable, Iterable, Mapping, Sequence
from collections import deque
from time import time
from uuid import uuid4

from cloche import languages, settings
from cloche.blocking.client.attempts import RemoteAttempt, attempt, best_of
from cloche.blocking.client.cells import RemoteCell
from cloche.blocking.client.checkpoints import RemoteCheckpoints
from cloche.blocking.client.commands import RemoteCommands, RemoteProcess
from cloche.blocking.client.contexts import RemoteContexts
from cloche.blocking.client.feed import Feed
from cloche.blocking.client.files import RemoteFiles
from cloche.blocking.client.server import Server, checked_key, server_at
from cloche.blocking.engine.box import Events
from cloche.blocking.engine.checkpoints import MAX_CHECKPOINTS
from cloche.blocking.engine.contexts import Context
from cloche.blocking.engine.sandbox import MAX_HISTORY, Sandbox
from cloche.blocking.engine.tools import Tools
from cloche.blocking.io.tasks import Lock, pause
from cloche.client import shapes
from cloche.errors import Gone, InvalidRun
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

    from cloche.blocking.client.ports import RemotePorts
    from cloche.sandbox.checks import Data

_LONGEST_S = 366 * 86400
_REASONS = {"its time was up": "timeout", "it needed too much memory": "memory", "it was ended by its owner": "closed"}


def the_server(url: str | None, api_key: str | None) -> Server:
    """The server that is meant, by what the caller says or else the environment."""
    known = settings.load()
    return server_at((url or known.url or "").rstrip("/"), checked_key(api_key or known.api_key or ""))


class RemoteSandbox(Sandbox):
    """What `Sandbox(url=…)` makes."""

    contexts: RemoteContexts
    checkpoints: RemoteCheckpoints

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
        self.tools = Tools(tools)
        self.files, self.commands = RemoteFiles(self), RemoteCommands(self)
        self.contexts = RemoteContexts(self)
        self.checkpoints = RemoteCheckpoints(self, checkpoints)
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
        self._opening = Lock()
        self._undo = undo
        self._history: deque[Moment] = deque(maxlen=MAX_HISTORY)

    @property
    def ports(self) -> RemotePorts:
        """Servers inside."""
        from cloche.blocking.client.ports import RemotePorts  # and with it a WebSocket library

        return RemotePorts(self)

    # --- its life

    def open(self) -> None:
        """Start it, or find the one that was named; done by `with`, and by the first use."""
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        if not self._is_open:
            with self._opening:
                if not self._is_open:
                    self._open()

    def _open(self) -> None:
        if self.id is None:
            key = f"Idempotency-Key: {self._idempotency_key}\r\n"
            told = self.server.call("POST", "/v1/sandboxes", self._wish, headers=key, safe=True)
        else:
            told = self.server.call("GET", f"/v1/sandboxes/{shapes.quoted(self.id)}")
            if told["state"] != "alive":
                raise Gone(f"The sandbox has ended: {told['reason'] or told['state']}.", hint="Make a new one.")
        self.id, self.workspace = told["id"], told["workspace"]
        self.limits, self.wall, self.metadata = shapes.limits(told["limits"]), told["wall"], told["metadata"]
        self._is_open = True
        if self._is_guest:
            self._refresh()

    def close(self) -> None:
        """End it, with all that is in it, and wait until nothing of it is left; one that was named lives on."""
        if self._is_guest:
            self._ended = self.closed = True
        else:
            self.kill()

    def kill(self) -> None:
        """End it, also one that somebody else has made."""
        self._ended = self.closed = True
        if self.id is not None:
            self.server.call("DELETE", self.path(""), timeout=None)

    def pause(self) -> None:
        """Have nothing in it run until `resume`."""
        self.call("POST", "/pause", safe=True)

    def resume(self) -> None:
        """Have it go on where it was."""
        self.call("POST", "/resume", safe=True)

    def set_lifetime(self, seconds: float | None) -> None:
        """Have the sandbox end by itself so long from now; None: as late as the server allows."""
        self.call("PATCH", "", {"ttl": seconds}, safe=True)

    def usage(self) -> Usage:
        """What the sandbox uses now."""
        return shapes.usage(self.call("GET", "/usage"))

    def ended(self) -> str:
        """Wait until it has ended, for whatever reason, and tell it."""
        if self.id is None:
            if self.closed:
                return "closed"
            self.open()
        feed = Feed(self.server, again=self.path("/events"))
        try:
            while True:
                event = feed.next()
                if event is None or event[0] == "sandbox.ended":
                    break
        except Gone:
            pass  # it has ended already
        finally:
            feed.close()
        while (told := self.server.call("GET", self.path("")))["state"] == "alive":
            pause(0.02)  # it is about to end
        return _REASONS.get(told["reason"], str(told["reason"]))

    # --- sessions

    def interrupt(self, context: str | Context | None = None) -> None:
        """Have what runs stop, in one context or in all; variables stay."""
        if context is not None:
            self.contexts.get(context).interrupt()
        elif self._is_open:
            self.call("POST", "/interrupt", {}, safe=True)

    def undo(self) -> Restored:
        """Go back to before the last run; again, to before the one before it.  Wants `Sandbox(undo=True)`."""
        restored = self.checkpoints.undo()
        self._history.append(Moment("undo", time()))
        return restored

    def attempt(
        self, code: str, *, context: str | Context | None = None, timeout: float | None = None
    ) -> RemoteAttempt:
        """Run code in a branch and see what it changes; then `keep()` it or `discard()` it."""
        request = self._trial(context, timeout)
        return attempt(self, {"code": checked_code(code), **request})

    def best_of(
        self,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        *,
        context: str | Context | None = None,
        timeout: float | None = None,
    ) -> Best:
        """Run candidates in branches from here, and go on as the one with the highest score."""
        return best_of(self, {"candidates": candidates, **self._trial(context, timeout)}, score)

    def _trial(self, context: str | Context | None, timeout: float | None) -> dict[str, Any]:
        self.limits_with(timeout)
        where = self._living(context)
        where.take()  # nothing of ours runs in it, not even the code that called the tool that calls this
        where.free(None)
        return {"context": None if self.is_default(where) else where.id, "timeout": timeout}

    def _start(
        self,
        code: str,
        language: str | None,
        context: str | Context | None,
        has_input: bool | str,
        env: Mapping[str, str] | None,
        timeout: float | None,
        keep: int,
    ) -> tuple[RemoteCell, Context]:
        request: dict[str, Any] = {"code": checked_code(code), "env": checked_env(env) or None, "keep": keep}
        self.limits_with(timeout)
        where = self._context(language, context)
        request["timeout"] = timeout
        request["language"] = where.language if language is None else languages.find(language).name
        if not self.is_default(where):
            request["context"] = where.id
        if has_input == "interactive":
            request["interactive"] = True
        self.open()
        where.take()
        cell = RemoteCell(self, request)
        where.occupy(cell)
        return cell, where

    def is_default(self, context: Context) -> bool:
        """Is it one that the server makes when it is first wanted?"""
        spoken = languages.find(context.language)
        return context.id == (spoken.context or spoken.name)

    def ran(self) -> None:
        """A cell has run; with `undo`, there is a checkpoint of before."""
        if self._undo:
            self.checkpoints.refresh()

    def refresh(self) -> None:
        """Learn what there is now, after something that changed more than it tells."""
        self.open()
        self._refresh()

    def _refresh(self) -> None:
        self.contexts.refresh()
        self.checkpoints.refresh()
        told = self.server.items(self.path("/history"))
        self._history.clear()
        self._history.extend(map(shapes.moment, told))

    # --- programs

    def run_program(
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
        return self.run_command(asked, data)

    def start_program(
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
    ) -> RemoteProcess:
        """Start a program and return at once."""
        request = self._program(code, language, entry, args, env, cwd, timeout, build_timeout, check)
        return self.start_command({**request, "stdin": bool(stdin)})

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
    ) -> RemoteEvents:
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
        return RemoteEvents(self, code, data, options)

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

    def run_command(self, request: dict[str, Any], stdin: Data | None) -> Result:
        """Have a command or a program run to its end."""
        given = {"stdin": False} if stdin is None else shapes.given("stdin", stdin)
        return shapes.result(self.call("POST", "/commands", {**request, **given, "wait": True}, timeout=None))

    def start_command(self, request: dict[str, Any]) -> RemoteProcess:
        """Have a command or a program started."""
        return RemoteProcess(self, self.call("POST", "/commands", request))

    # --- requests

    def path(self, rest: str) -> str:
        """The address of something of this sandbox."""
        assert self.id is not None
        return f"/v1/sandboxes/{self.id}{rest}"

    def call(self, method: str, path: str, told: Any = None, **how: Any) -> Any:
        """Ask for something, of this sandbox unless the path says otherwise."""
        self.open()
        return self.server.call(method, self._whole(path), told, **how)

    def items(self, path: str) -> list[dict[str, Any]]:
        """All of a list."""
        self.open()
        return self.server.items(self._whole(path))

    def feed(self, method: str, path: str, told: Any = None) -> Feed:
        """Ask for something that is answered with events."""
        self.open()
        body = b"" if told is None else shapes.json(told)
        answer = self.server.ask(method, self._whole(path), body, accept="text/event-stream", timeout=None)
        return Feed(self.server, answer)

    def post_soon(self, method: str, path: str) -> None:
        """Ask for something from where nothing can be awaited."""
        if not self._ended:
            self.server.post(method, path)

    def _whole(self, path: str) -> str:
        return path if path.startswith("/v1/") else self.path(path)


class RemoteEvents(Events):
    """The events of one program, in order."""

    _box: RemoteSandbox

    def __next__(self) -> Event:
        if self._process is None:
            request = self._box._program(self._code, **self._options)
            given = {"stdin": False} if self._stdin is None else shapes.given("stdin", self._stdin)
            self._process = self._box.start_command({**request, **given})
        return super().__next__()
