"""A sandbox with sessions, in which code keeps its variables from run to run and can be undone."""

from __future__ import annotations

from _collections_abc import Callable, Iterable, Mapping, Sequence
from collections import deque
from time import time

from cloche import languages
from cloche.errors import InvalidRun
from cloche.model.files import Mount
from cloche.model.history import Best, Moment, Restored, VariableList
from cloche.model.limits import Limits
from cloche.model.result import Result, Usage
from cloche.sandbox.attempts import AsyncAttempt
from cloche.sandbox.cells import AsyncCellEvents
from cloche.sandbox.checkpoints import MAX_CHECKPOINTS, AsyncCheckpoint, AsyncCheckpoints
from cloche.sandbox.checks import (
    checked_code,
    checked_data,
    checked_env,
    checked_mounts,
    checked_network,
    checked_packages,
)
from cloche.sandbox.commands import AsyncCommands, AsyncProgramEvents
from cloche.sandbox.contexts import AsyncContext, AsyncContexts, AsyncQuiet
from cloche.sandbox.files import AsyncFiles
from cloche.sandbox.places import place_for
from cloche.sandbox.ports import AsyncPorts
from cloche.sandbox.processes import AsyncProcess
from cloche.sandbox.requests import CellRequest, SandboxRequest, checked_lifetime, checked_program, checked_timeout
from cloche.sandbox.tools import AsyncTools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.model.network import Network
    from cloche.sandbox.backend import AsyncBackend, AsyncCell
    from cloche.sandbox.facts import ContextFacts
    from cloche.sandbox.network import AsyncNetworkAccess
    from cloche.sandbox.packages import AsyncPackages
    from cloche.walls.wall import AsyncWall

MAX_HISTORY, MAX_CANDIDATES = 1000, 16
STREAM_KEEPS = 1 << 20  # bytes of output in the result of a streamed run, whose events already carry all of it


class AsyncSandbox:
    """A sandbox: sessions, files, programs, limits.  Use it in a `with` block, or `close` it.

    `network` says what the sandbox may reach: nothing by default, a list of hosts, "packages", "public", or a `Network`
    (docs/network.md).  `packages` are installed before anything runs: "polars", "httpx>=0.27", "npm:lodash@4";
    `environment` names one that has packages and files already (docs/packages.md).  `timeout` limits each run without
    one; other limits apply to the sandbox as a whole.  `tools` are functions of yours that code inside may call.
    `undo` makes a checkpoint before every run.  `isolation` selects the kind of isolation: "auto", "jail", or "e2b"
    (docs/e2b.md); a `wall` of your own takes precedence.

    With `url` (or CLOCHE_URL) the sandbox is on a server, and `api_key` (or CLOCHE_API_KEY) is the key for that server.
    `id` names an existing sandbox, which outlives the `with` block.  `metadata`, `idle_timeout`, `persistent` and
    `workspace` also apply to servers only.  `url=""` means this host, even when CLOCHE_URL is set.
    """

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
        network: str | Iterable[str] | Mapping[str, Any] | Network | None = None,
        packages: Iterable[str] | None = None,
        environment: str | None = None,
        lifetime: float | None = None,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        undo: bool = False,
        checkpoints: int = MAX_CHECKPOINTS,
        isolation: str = "auto",
        wall: AsyncWall | None = None,
        url: str | None = None,
        api_key: str | None = None,
        id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idle_timeout: float | None = None,
        persistent: bool = False,
        workspace: str | None = None,
    ) -> None:
        server = {"url": url, "api_key": api_key, "id": id, "metadata": metadata, "idle_timeout": idle_timeout}
        request = SandboxRequest(
            limits=Limits.of(timeout, memory, cpu, disk, processes, output, build_timeout),
            env=checked_env(env),
            mounts=checked_mounts(mounts),
            network=checked_network(network),
            packages=checked_packages(packages),
            environment=environment,
            lifetime=checked_lifetime(lifetime),
            tools=AsyncTools(tools),
            undo=bool(undo),
            checkpoints=checkpoints,
            server_options={**server, "persistent": persistent, "workspace": workspace},
        )
        self.tools: AsyncTools = request.tools
        self.contexts = AsyncContexts(self)
        self.checkpoints = AsyncCheckpoints(self, checkpoints)
        self._undo = request.undo
        self._history: deque[Moment] = deque(maxlen=MAX_HISTORY)
        self.backend: AsyncBackend = place_for(url, api_key, isolation, wall).sandbox(request, self)
        self.files = AsyncFiles(self.backend.files)
        self.commands = AsyncCommands(self.backend.programs)

    @property
    def ports(self) -> AsyncPorts:
        """The ports of servers inside the sandbox, and connections to them."""
        return AsyncPorts(self.backend.ports)

    @property
    def network(self) -> AsyncNetworkAccess:
        """The sandbox's access to the network, and the log of its attempts."""
        from cloche.sandbox.network import AsyncNetworkAccess

        return AsyncNetworkAccess(self.backend.network)

    @property
    def packages(self) -> AsyncPackages:
        """The packages that programs in the sandbox can import; more can be installed."""
        from cloche.sandbox.packages import AsyncPackages

        return AsyncPackages(self.backend.packages)

    @property
    def limits(self) -> Limits:
        """The sandbox's limits; on a server, the limits that the server allows."""
        return self.backend.limits

    @property
    def env(self) -> dict[str, str]:
        """The environment variables of everything that runs in the sandbox."""
        return self.backend.env

    @property
    def wall(self) -> str:
        """The name of the wall around the sandbox; on a server, known once the sandbox is open."""
        return self.backend.wall

    @property
    def id(self) -> str | None:
        """The sandbox's id on its server, once it is open; None on this host."""
        return self.backend.id

    @property
    def workspace(self) -> str | None:
        """The id of the workspace in which a server saves the files of a persistent sandbox, or None."""
        return self.backend.workspace

    @property
    def metadata(self) -> Mapping[str, str]:
        """The owner's notes about the sandbox, stored on the server."""
        return self.backend.metadata

    @property
    def paused(self) -> bool:
        """Whether the sandbox is paused."""
        return self.backend.paused

    @property
    def closed(self) -> bool:
        """Whether the owner has closed the sandbox."""
        return self.backend.closed

    # --- lifetime

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Create the sandbox, or connect to the one named by `id`.  A `with` block or the first use does the same."""
        await self.backend.open()

    async def close(self) -> None:
        """End the sandbox and wait until it is removed.  A sandbox that was named by `id` lives on."""
        await self.backend.close()

    async def kill(self) -> None:
        """End the sandbox, even if it was named by `id`."""
        await self.backend.kill()

    async def pause(self) -> None:
        """Stop everything inside until `resume`.  Variables, programs and files stay, and keep using memory."""
        await self.backend.pause()

    async def resume(self) -> None:
        """Continue a paused sandbox."""
        await self.backend.resume()

    async def set_lifetime(self, seconds: float | None) -> None:
        """End the sandbox this many seconds from now; None: when it is closed, or as late as its server allows."""
        await self.backend.set_lifetime(seconds)

    async def usage(self) -> Usage:
        """Measure the resources that the sandbox uses now."""
        return await self.backend.usage()

    async def ended(self) -> str:
        """Wait until the sandbox has ended, and return the reason.

        "closed": by its owner; "timeout": its lifetime was over; "memory": it needed too much; "failed": it could not
        be built; "lost": it was killed in another way.  Other tasks may use the sandbox meanwhile.
        """
        return await self.backend.ended()

    # --- sessions

    async def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: str | AsyncContext | None = None,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a cell.  It shares variables, imports and files with the cells before and after it."""
        data = None if stdin is None else checked_data("stdin", stdin)
        takes_input = "" if data is None else "whole"
        cell, where = await self._start(code, language, context, takes_input, env, timeout, self.limits.output_bytes)
        try:
            result = await cell.finish(data)
        finally:
            await where.free(cell)
        await self._ran(where, code, result)
        return result

    def stream(
        self,
        code: str,
        *,
        language: str | None = None,
        context: str | AsyncContext | None = None,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        interactive: bool = False,
        keep: int | None = None,
        shows: Mapping[str, Any] | None = None,
    ) -> AsyncCellEvents:
        """Run a cell; iterate over its events as they happen: started, stdout, stderr, result, error, end.

        The result at the end contains the first `keep` bytes of the output (by default, one megabyte).  With
        `interactive`, code that reads its standard input waits for data from `write` of the events.  `shows` adds to
        the displays of this cell: {"rows": of a table, "saved": also pictures that are saved to a file}.
        """
        data = None if stdin is None else checked_data("stdin", stdin)
        if interactive and data is not None:
            raise InvalidRun("stdin= is all of the input, and interactive=True takes more.", hint="Choose one of them.")
        takes_input = "interactive" if interactive else "" if data is None else "whole"

        async def start() -> tuple[AsyncCell, AsyncContext]:
            most = min(self.limits.output_bytes, STREAM_KEEPS if keep is None else keep)
            return await self._start(code, language, context, takes_input, env, timeout, most, shows)

        async def over(cell: AsyncCell, where: AsyncContext) -> None:
            await where.free(cell)
            if cell.result is not None:
                await self._ran(where, code, cell.result)

        return AsyncCellEvents(start, over, data, interactive)

    async def interrupt(self, context: str | AsyncContext | None = None) -> None:
        """Stop the running code in one context, or in all; variables stay."""
        if context is not None:
            await self.contexts.get(context).interrupt()
        else:
            await self.backend.sessions.interrupt(None, self.contexts.running())

    async def restart(self, context: str | AsyncContext | None = None) -> None:
        """End the kernel of one context, or of all: the next run starts with no variables.  Files stay."""
        for where in [self.contexts.get(context)] if context is not None else self.contexts.list():
            await where.restart()
            self._history.append(Moment("restart", time(), where.id))

    async def variables(
        self, context: str | AsyncContext | None = None, *, search: str = "", name: str = ""
    ) -> VariableList:
        """List the variables of a context (Python's, unless another is named), or only the one called `name`."""
        return await self.contexts.choose(None, context).variables(search=search, name=name)

    # --- undo

    async def checkpoint(self, name: str = "") -> AsyncCheckpoint:
        """Save the variables of Python contexts, and all files, as they are now."""
        taken = await self.checkpoints.take(name)
        self._history.append(Moment("checkpoint", time(), name=taken.name or taken.id))
        return taken

    async def restore(self, checkpoint: str | AsyncCheckpoint) -> Restored:
        """Bring variables and files back to their state at a checkpoint, as often as you like."""
        found = self.checkpoints.get(checkpoint)
        restored = await self.checkpoints.restore(found)
        self._history.append(Moment("restore", time(), name=found.name or found.id))
        return restored

    async def branch(
        self,
        checkpoint: str | AsyncCheckpoint | None = None,
        *,
        files: str = "shared",
        context: str | AsyncContext | None = None,
    ) -> AsyncContext:
        """Make a new context that continues from the variables of a checkpoint, or from the live ones.

        All contexts share their files; `files="copy"` gives the new one a copy of /sandbox as its working directory.
        """
        source = await self.checkpoints.source(checkpoint, context)
        branch = await self.checkpoints.branch(checkpoint, source, files)
        self._history.append(Moment("branch", time(), branch.id))
        return branch

    async def undo(self) -> Restored:
        """Undo the last run; call it again to undo the run before that.  Needs `Sandbox(undo=True)`."""
        restored = await self.checkpoints.undo()
        self._history.append(Moment("undo", time()))
        return restored

    def history(self) -> list[Moment]:
        """List runs, checkpoints, restores and so on, oldest first; at most the last thousand."""
        return list(self._history)

    async def attempt(
        self, code: str, *, context: str | AsyncContext | None = None, timeout: float | None = None
    ) -> AsyncAttempt:
        """Run code in a branch and return its changes, to `keep()` or `discard()`."""
        checked, limit = checked_code(code), checked_timeout(timeout)
        source = await self.contexts.idle_to_branch(context)
        trial = await self.backend.checkpoints.attempt(source.facts, checked, limit)
        await self.refresh()
        return AsyncAttempt(self, trial)

    async def best_of(
        self,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        *,
        context: str | AsyncContext | None = None,
        timeout: float | None = None,
    ) -> Best:
        """Run each candidate in a branch of its own, and continue from the one with the highest score.

        `score` is an expression that is evaluated in each branch, or a function of yours that gets the result.  Each
        candidate works in a copy of /sandbox; those that name an absolute path run one after the other.
        """
        if isinstance(candidates, str) or not 1 <= len(candidates) <= MAX_CANDIDATES:
            raise InvalidRun(f"best_of takes a list of 1 to {MAX_CANDIDATES} texts.")
        checked, limit = [checked_code(code) for code in candidates], checked_timeout(timeout)
        source = await self.contexts.idle_to_branch(context)
        best = await self.backend.checkpoints.best_of(source.facts, checked, score, limit)
        await self.refresh()
        return best

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
        """Run a program to its end, in this sandbox, in a process of its own.

        The program is `code`, or the file `entry` of a project in the sandbox; with both, `code` is written to `entry`.
        `check` is for TypeScript: "report" type errors, "block" the program because of them, or "off".
        """
        data = None if stdin is None else checked_data("stdin", stdin)
        program = checked_program(
            code, language, entry, args, env, cwd, timeout, build_timeout, check, data is not None
        )
        return await self.backend.programs.run_program(program, data)

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
    ) -> AsyncProcess:
        """Start a program and return at once.  A program in a compiled language is built first."""
        program = checked_program(code, language, entry, args, env, cwd, timeout, build_timeout, check, bool(stdin))
        return AsyncProcess(await self.backend.programs.start_program(program))

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
    ) -> AsyncProgramEvents:
        """Run a program; iterate over its events as they happen: building, started, stdout, stderr, exit."""
        data = None if stdin is None else checked_data("stdin", stdin)
        program = checked_program(
            code, language, entry, args, env, cwd, timeout, build_timeout, check, data is not None
        )
        return AsyncProgramEvents(self.backend.programs, program, data)

    # --- for the backend (AsyncSession)

    def quiet(self) -> AsyncQuiet:
        """A `with` block in which nothing runs in any context."""
        return self.checkpoints.quiet()

    def turn(self, context: str) -> AsyncQuiet:
        """A `with` block in which nothing else runs in one context."""
        return AsyncQuiet([self.contexts.get(context)])

    async def run_in(self, context: ContextFacts, code: str, timeout: float | None) -> Result:
        """Run a cell in a context that the backend has made."""
        return await self.run(code, context=self.contexts.learn(context), timeout=timeout)

    async def refresh(self) -> None:
        """Update the lists of contexts and checkpoints, and the history."""
        await self.contexts.refresh()
        await self.checkpoints.refresh()
        history = await self.backend.sessions.history()
        if history is not None:
            self._history.clear()
            self._history.extend(history)

    # --- internals

    async def _start(
        self,
        code: str,
        language: str | None,
        context: str | AsyncContext | None,
        takes_input: str,
        env: Mapping[str, str] | None,
        timeout: float | None,
        keep: int,
        shows: Mapping[str, Any] | None = None,
    ) -> tuple[AsyncCell, AsyncContext]:
        """Begin a cell when its turn in its context has come."""
        checked, variables, limit = checked_code(code), checked_env(env), checked_timeout(timeout)
        where = self.contexts.choose(language, context)
        name = where.language if language is None else languages.find(language).name
        request = CellRequest(checked, name, where.facts, variables, limit, takes_input, keep, shows)
        await self.open()
        if self._undo and where.language == "python" and not where.is_branch:
            await self.checkpoints.remember()
        await where.take()
        cell = self.backend.sessions.cell(request)
        where.occupy(cell)
        try:
            await cell.begin()
        except BaseException:
            await where.free(cell)
            raise
        return cell, where

    async def _ran(self, where: AsyncContext, code: str, result: Result) -> None:
        error = None if result.error is None else result.error.kind
        self._history.append(Moment("run", time(), where.id, code, error))
        if self._undo:
            await self.checkpoints.refresh()  # there is one from before the run
