"""The verbs about commands: programs that a caller starts in a sandbox, and that go on between requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING

from cloche.configuration import Configuration
from cloche.errors import ClocheError, Gone, InvalidRun, Refused
from cloche.languages.choice import language_of
from cloche.model.events import Started
from cloche.model.result import Error, Result
from cloche.policy import limits
from cloche.policy.caller import Caller
from cloche.service.event_log import EventLog, LogEntry
from cloche.service.events import NoResult, OfCommand
from cloche.service.identity import new_id
from cloche.service.runs import Run, Runs
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.sandbox.processes import AsyncProcess
    from cloche.service.lifecycle import Lifecycle
    from cloche.service.live import LiveSandbox

MAX_LOG = 16 << 20  # characters of the events of one command
MAX_FINISHED = 50  # commands of one sandbox that have ended and are still known
MAX_KEPT = 128 << 20  # bytes of those commands, about: their events and their output
MAX_RUNNING = 200  # in one sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A command (a shell line or a list of words), or a program in some language (`code` or `entry`)."""

    command: str | Sequence[str] | None = None
    code: str | None = None
    entry: str | None = None
    language: str | None = None
    args: Sequence[str] = ()
    check: str = "report"
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    takes_input: bool = True
    data: bytes | None = None  # for the standard input
    timeout: float | None = None
    build_timeout: float | None = None
    pty: bool = False
    size: tuple[int, int] = (80, 24)
    keep: int | None = None  # bytes of output in the result
    log_size: int = field(default=MAX_LOG)

    @property
    def words(self) -> str | list[str]:
        """The command as a list of commands shows it."""
        if self.command is None:
            return self.entry or self.language or "python"
        return self.command if isinstance(self.command, str) else list(self.command)


class StartedCommand:
    """A command, from its start until the server forgets it."""

    def __init__(self, live: LiveSandbox, process: AsyncProcess, request: CommandRequest) -> None:
        self.id, self.words, self.pty = new_id("cmd"), request.words, request.pty
        self.started = time()
        self.log = EventLog(request.log_size, self._feed)
        self.result: Result | None = None
        self._live, self._process = live, process
        self.task = asyncio.create_task(self._follow())

    @property
    def pid(self) -> int | None:
        """The process id inside the sandbox; None while the program is still being compiled."""
        return self._process.pid if self._process.has_begun else None

    @property
    def status(self) -> int | None:
        """The exit status once it has ended, negative for a signal."""
        return self._process.status

    @property
    def start_error(self) -> Error | None:
        """Why the command could not start, if a limit kept it from starting."""
        result = None if self._process.has_begun else self._process.result
        return None if result is None else result.error

    @property
    def size(self) -> int:
        """About how many bytes it takes: its events, and its output as it came, as bytes and as text."""
        result = self.result
        return self.log.size + (0 if result is None else 3 * (len(result.stdout_bytes) + len(result.stderr_bytes)))

    def in_use(self, *, saves: bool = True) -> AbstractAsyncContextManager[object]:
        """Keep the sandbox from being idle while a client talks to the command."""
        return self._live.used(saves=saves)

    async def write(self, data: bytes) -> None:
        """Write to the standard input."""
        await self._process.write(data)

    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    async def signal(self, signal: int | str) -> None:
        await self._process.signal(signal)

    async def resize(self, columns: int, rows: int) -> None:
        await self._process.resize(columns, rows)

    async def kill(self) -> None:
        """Kill the command and every process that it has started."""
        await self._process.kill()

    async def outcome(self) -> Result:
        """Wait for the end."""
        await asyncio.shield(self.task)
        if self.result is None:
            raise Gone("The sandbox has ended.", hint="Make a new one.")
        return self.result

    async def _follow(self) -> None:
        has_begun = self._process.has_begun
        if has_begun:
            self.log.add(Started(self._process.pid))
        try:
            async for event in self._process:
                if event.kind == "exit":
                    await self._live.save_if_possible()
                if event.kind != "started" or not has_begun:
                    self.log.add(event)
                    await self.log.keep_pace()
        except ClocheError as problem:
            self.log.add(NoResult(problem))
        finally:
            self.result = self._process.result
            self.log.end()
            self._live.commands.forget_old()

    def _feed(self, entry: LogEntry) -> None:
        self._live.publish(OfCommand(self.id, entry.event), entry.size)


class SandboxCommands:
    """The commands of one sandbox."""

    def __init__(self, live: LiveSandbox) -> None:
        self._live = live
        self._by_id: dict[str, StartedCommand] = {}

    def check_room(self) -> None:
        """Refuse another command when too many are running."""
        if len(self.running()) >= MAX_RUNNING:
            raise Refused(f"{MAX_RUNNING} commands are running in this sandbox.", hint="End some of them.")

    def add(self, process: AsyncProcess, request: CommandRequest) -> StartedCommand:
        """Follow a process that was started."""
        process.is_followed = True
        command = StartedCommand(self._live, process, request)
        self._by_id[command.id] = command
        return command

    def forget_old(self) -> None:
        """Forget the commands that ended first when there are many or they take much memory; keep the last one."""
        over = [known for known in self._by_id.values() if known.log.over]
        size = sum(known.size for known in over)
        while len(over) > MAX_FINISHED or (size > MAX_KEPT and len(over) > 1):
            oldest = over.pop(0)
            size -= oldest.size
            del self._by_id[oldest.id]

    def find(self, identity: str) -> StartedCommand:
        if identity not in self._by_id:
            raise Gone("There is no such command.", hint="GET …/commands lists the sandbox's commands.")
        return self._by_id[identity]

    def all(self) -> list[StartedCommand]:
        """The commands that run, and those that ended lately."""
        return list(self._by_id.values())

    def running(self) -> list[StartedCommand]:
        return [command for command in self._by_id.values() if not command.log.over]

    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that follow the running commands."""
        return [command.task for command in self.running()]

    def end(self) -> None:
        """End the logs: the sandbox has ended, and its commands with it."""
        for command in self.running():
            command.log.end()
        self._by_id.clear()  # commands and sandbox refer to each other, which would delay freeing the sandbox


class Commands:
    """Starts commands, and finds them again."""

    def __init__(self, configuration: Configuration, lifecycle: Lifecycle, runs: Runs) -> None:
        self._configuration, self._lifecycle, self._runs = configuration, lifecycle, runs

    @verb("run")
    async def start(self, caller: Caller, sandbox: str, request: CommandRequest) -> StartedCommand:
        """Start a command that goes on until it ends, whether or not a client listens."""
        self._check(request)
        live = await self._lifecycle.find(caller, sandbox)
        live.commands.check_room()
        process = await _started(live, request, takes_input=request.takes_input)
        if request.command is None:
            await process.started()
        if request.data is not None:
            await process.feed(request.data)  # before a client can listen, and feed it as well
        return live.commands.add(process, request)

    @verb("run")
    async def run(self, caller: Caller, sandbox: str, request: CommandRequest) -> Run:
        """Start a command as a run: it is recorded, and its outcome can be awaited."""
        self._check(request)
        live = await self._lifecycle.find(caller, sandbox)

        async def work(run: Run) -> Result:
            async with live.used(saves=False):
                process = await _started(live, request, takes_input=request.data is not None, whole=True)
                run.stop = process.kill
                result = await process.finish(request.data, run.publish)
                await live.save_after(result)
                return result

        code = request.code if request.code is not None else str(request.words)
        is_program = request.command is None
        language = (request.language or language_of(request.code, request.entry)) if is_program else "command"
        moved = len(request.data or b"")
        return await self._runs.start_in(caller, live, work, code, language, bytes_moved=moved)

    @verb("read")
    async def list(self, caller: Caller, sandbox: str) -> Sequence[StartedCommand]:
        """The commands that run, and those that ended lately."""
        live = await self._lifecycle.find(caller, sandbox)
        return live.commands.all()

    @verb("read")
    async def follow(self, caller: Caller, sandbox: str, command: str) -> StartedCommand:
        """A command, to read its log and its result."""
        live = await self._lifecycle.find(caller, sandbox)
        return live.commands.find(command)

    @verb("run")
    async def find(self, caller: Caller, sandbox: str, command: str) -> StartedCommand:
        """A command, to write to it, signal it or kill it."""
        live = await self._lifecycle.find(caller, sandbox)
        return live.commands.find(command)

    @verb("run")
    async def kill_all(self, caller: Caller, sandbox: str) -> None:
        """Kill every running command."""
        live = await self._lifecycle.find(caller, sandbox)
        for command in live.commands.running():
            await command.kill()

    def _check(self, request: CommandRequest) -> None:
        if (request.command is None) == (request.code is None and request.entry is None):
            raise InvalidRun("Give either a command, or the code of a program.")
        limits.check_value("timeout", request.timeout, self._configuration)
        limits.check_value("build_timeout", request.build_timeout, self._configuration)


async def _started(
    live: LiveSandbox, request: CommandRequest, *, takes_input: bool, whole: bool = False
) -> AsyncProcess:
    if request.command is None:
        return await live.box.start_program(
            request.code,
            language=request.language,
            entry=request.entry,
            args=request.args,
            env=request.env,
            cwd=request.cwd,
            timeout=request.timeout,
            build_timeout=request.build_timeout,
            check=request.check,
            stdin=takes_input,
        )
    # A command that a request waits for has the sandbox's time limit; one that goes on has none unless it names one.
    timeout = live.limits.timeout_s if whole and request.timeout is None else request.timeout
    options = {} if request.keep is None else {"keep": request.keep}
    return await live.box.commands.start(
        request.command,
        cwd=request.cwd,
        env=request.env,
        pty=request.pty,
        size=request.size,
        stdin=takes_input,
        timeout=timeout,
        stop_at_output_limit=whole,
        **options,
    )
