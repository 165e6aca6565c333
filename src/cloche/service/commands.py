"""The verbs about commands: programs that a caller starts in a sandbox, and that go on between requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any

from cloche.configuration import Configuration
from cloche.errors import ClocheError, Gone, InvalidRun, Refused
from cloche.io.tasks import off_loop
from cloche.languages.choice import language_of
from cloche.model.events import Exit, Started
from cloche.model.result import Error, Result
from cloche.policy import limits
from cloche.policy.caller import Caller
from cloche.sandbox.checks import checked_size
from cloche.sandbox.processes import AsyncProcess
from cloche.sandbox.requests import checked_program
from cloche.service.event_log import EventLog, LogEntry, size_of
from cloche.service.events import NoResult, OfCommand
from cloche.service.identity import new_id
from cloche.service.run import STOPPED_HINT, Run
from cloche.service.runs import Runs
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.service.charges import Account
    from cloche.service.lifecycle import Lifecycle
    from cloche.service.live import LiveSandbox

MAX_LOG = 16 << 20  # characters of the events of one command
MAX_FINISHED = 50  # commands of one sandbox that have ended and are still known
MAX_CUT = 64 << 10  # bytes of each stream of a command whose whole output is not kept any more
MAX_RUNNING = 200  # in one sandbox
_LONGEST_NAME = 100  # characters of a program's name in the audit log


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

    @property
    def text(self) -> str:
        """The source, or the command as a text."""
        return self.code if self.code is not None else str(self.words)

    @property
    def length(self) -> int:
        """The characters of the source or the command."""
        words = self.words if self.code is None else self.code
        return len(words) if isinstance(words, str) else sum(map(len, words))

    def audited(self, sandbox: str) -> dict[str, Any]:
        """The command as the audit log shows it: its program and a hash, because its words may contain secrets."""
        words = self.words
        first = (words.split(None, 1) or [""])[0] if isinstance(words, str) else next(iter(words), "")
        name = first.rpartition("/")[2] if "=" not in first else ""
        return {
            "sandbox": sandbox,
            "kind": "terminal" if self.pty else "program" if self.command is None else "command",
            "program": "".join(letter for letter in name[:_LONGEST_NAME] if letter.isprintable()),
            "code_sha256": sha256(self.text.encode(errors="surrogatepass")).hexdigest(),
        }


class StartedCommand:
    """A command, from its start until the server forgets it."""

    def __init__(
        self,
        identity: str,
        live: LiveSandbox,
        process: AsyncProcess,
        request: CommandRequest,
        account: Account,
        release: Callable[[], None],
    ) -> None:
        self.id, self.words, self.pty = identity, request.words, request.pty
        self.account, self._release = account, release
        self.started = time()
        self._stopped = ""  # why the server stopped it, if it did
        self.owner = live.owner
        self.log = EventLog(request.log_size, self._feed, live.retention.live)
        self.result: Result | None = None
        self._live, self._process = live, process
        process.is_followed = True
        self.task = asyncio.create_task(self._follow())
        self.task.add_done_callback(lambda _: release())  # in case it never gets far enough to do so itself

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
        return self.log.size + (0 if self.result is None else size_of(self.result))

    @property
    def is_read(self) -> bool:
        return self.log.is_read

    def forget(self) -> None:
        """Give up the events and most of the output, because the server keeps too much."""
        self._process._forget()
        if self.result is None:
            self.log.forget()
        else:
            self.result = _cut(self.result)
            self.log.forget(Exit(self.result))

    def in_use(self, *, saves: bool = True) -> AbstractAsyncContextManager[object]:
        """Keep the sandbox from being idle while a client talks to the command."""
        return self._live.used(saves=saves)

    async def write(self, data: bytes) -> None:
        """Write to the standard input."""
        self.account.meter.move(len(data))
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

    async def stop_because(self, reason: str) -> None:
        """Kill it for the server's own reason, which its result gives."""
        self._stopped = reason
        await self.kill()

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
                if isinstance(event, Exit):
                    await self._live.save_if_possible()
                    await self._live.settle(self.account)
                    self._release()  # before a client knows that it has ended, and starts the next
                    event = Exit(self._judged(event.result))
                if event.kind != "started" or not has_begun:
                    self.log.add(event)
                    await self.log.keep_pace()
        except ClocheError as problem:
            self.log.add(NoResult(problem))
        finally:
            result = self._process.result
            self.result = None if result is None else self._judged(result)
            self.log.end()
            self._live.commands.keep(self)

    def _judged(self, result: Result) -> Result:
        if not self._stopped or result.error is None:
            return result
        return result.replace(error=Error("killed", self._stopped, STOPPED_HINT))

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

    def add(self, command: StartedCommand) -> None:
        self._by_id[command.id] = command

    def keep(self, ended: StartedCommand) -> None:
        """Keep a command that has just ended; forget those that ended first when there are many."""
        if ended.id not in self._by_id:
            return  # the sandbox has ended
        self._live.retention.add(ended)
        over = [known for known in self._by_id.values() if known.log.over]
        for oldest in over[:-MAX_FINISHED]:
            del self._by_id[oldest.id]
            self._live.retention.drop(oldest)
            oldest.forget()

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
        for command in self.all():
            self._live.retention.drop(command)
        self._by_id.clear()  # commands and sandbox refer to each other, which would delay freeing the sandbox


class Commands:
    """Starts commands, and finds them again."""

    def __init__(self, configuration: Configuration, lifecycle: Lifecycle, runs: Runs) -> None:
        self._configuration, self._lifecycle, self._runs = configuration, lifecycle, runs

    @verb("run", starts="command")
    async def start(self, caller: Caller, sandbox: str, request: CommandRequest) -> StartedCommand:
        """Start a command that goes on until it ends, whether or not a client listens.  It counts as a run at once."""
        self._check(request)
        live = await self._lifecycle.find(caller, sandbox)
        details = await off_loop(request.length, lambda: request.audited(live.id))
        live.commands.check_room()
        account, identity = self._lifecycle.charges.account(caller), new_id("cmd")
        with ExitStack() as undo:
            account.meter.begin_run()
            undo.callback(account.meter.end_run)
            self._lifecycle.audit.note(caller, "command.start", identity, details)
            await live.begin_work(account)
            undo.callback(live.end_work, account)
            process = await _started(live, request, takes_input=request.takes_input)
            if request.command is None:
                await process.started()
            if request.data is not None:
                await process.feed(request.data)  # before a client can listen, and feed it as well
            command = StartedCommand(identity, live, process, request, account, undo.pop_all().close)
        live.commands.add(command)
        return command

    @verb("run", starts="command")
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

        is_program = request.command is None
        language = (request.language or language_of(request.code, request.entry)) if is_program else "command"
        moved = len(request.data or b"")
        text = await off_loop(request.length, lambda: request.text)
        return await self._runs.start_in(caller, live, work, text, language, bytes_moved=moved)

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
        if not isinstance(request.words, str) and not all(isinstance(word, str) for word in request.words):
            raise InvalidRun("The words of a command are texts.")
        limits.check_value("timeout", request.timeout, self._configuration)
        limits.check_value("build_timeout", request.build_timeout, self._configuration)


def _cut(result: Result) -> Result:
    """A result with the beginning of its output."""
    out, err = result.stdout_bytes[:MAX_CUT], result.stderr_bytes[:MAX_CUT]
    return result.replace(
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        stdout_bytes=out,
        stderr_bytes=err,
        results=(),
        truncated=True,
    )


async def _started(
    live: LiveSandbox, request: CommandRequest, *, takes_input: bool, whole: bool = False
) -> AsyncProcess:
    if request.command is None and request.pty:
        program = checked_program(
            request.code,
            request.language,
            request.entry,
            request.args,
            request.env,
            request.cwd,
            request.timeout,
            request.build_timeout,
            request.check,
            takes_input,
        ).replace(terminal=checked_size(request.size))
        return AsyncProcess(await live.box.backend.programs.start_program(program))
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
