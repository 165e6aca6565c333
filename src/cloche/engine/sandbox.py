"""A sandbox with sessions: code that keeps its variables from turn to turn, and a way back."""

from __future__ import annotations

from _collections_abc import Callable, Mapping, Sequence
from collections import deque
from time import time

from cloche import languages, settings
from cloche.engine import default
from cloche.engine.attempts import AsyncAttempt, attempt, best_of
from cloche.engine.box import AsyncBox
from cloche.engine.cells import AsyncCell, AsyncCellEvents
from cloche.engine.checkpoints import (
    MAX_CHECKPOINTS,
    MOST,
    AsyncCheckpoint,
    AsyncCheckpoints,
    checkpoint_moment,
)
from cloche.engine.contexts import AsyncContext, AsyncContexts
from cloche.engine.tools import AsyncTools
from cloche.errors import ClocheError, FileProblem, Gone, InvalidRun, Refused
from cloche.model.files import Mount
from cloche.model.history import Best, Moment, Restored
from cloche.model.limits import Limits, within
from cloche.model.order import Order
from cloche.model.result import Result
from cloche.sandbox.checks import checked_code, checked_data, checked_env, checked_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.walls.wall import AsyncWall

MAX_HISTORY = 1000
STREAM_KEEPS = 1 << 20  # bytes of output in the result of a run whose events have told all of it


class AsyncSandbox(AsyncBox):
    """A sandbox: sessions, files, programs, limits.  Use it in a `with` block, or `close` it.

    `timeout` is the time that each run may take unless it says otherwise; the other limits are the sandbox's.  `tools`
    are functions of yours that code inside may call; `undo` makes a checkpoint before every run.  `isolation` says
    where it is held: "auto", "jail", or "e2b" (docs/e2b.md); a `wall` of your own goes before.

    With `url` (or CLOCHE_URL) the sandbox is one of a server, and `api_key` (or CLOCHE_API_KEY) the key for it; `id`
    names one that is there already, which outlives the `with` block.  `metadata`, `idle_timeout`, `persistent` and
    `workspace` are a server's, too.  `url=""` is this host, whatever the environment says.
    """

    def __new__(cls, *, url: str | None = None, wall: AsyncWall | None = None, **_: Any) -> Self:
        """One of this host, or of a server."""
        if cls is AsyncSandbox and wall is None and (settings.server() if url is None else url):
            from cloche.client.sandbox import AsyncRemoteSandbox

            return object.__new__(AsyncRemoteSandbox)  # type: ignore[return-value]
        return object.__new__(cls)

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
        wall: AsyncWall | None = None,
        url: str | None = None,
        api_key: str | None = None,
        id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idle_timeout: float | None = None,
        persistent: bool = False,
        workspace: str | None = None,
    ) -> None:
        for name, value in (
            ("url", url),
            ("api_key", api_key),
            ("id", id),
            ("metadata", metadata),
            ("idle_timeout", idle_timeout),
            ("persistent", persistent),
            ("workspace", workspace),
        ):
            if value:
                raise InvalidRun(f"{name}= needs a server.", hint="Say where it is, with url= or CLOCHE_URL; no wall=.")
        limits = Limits.of(timeout, memory, cpu, disk, processes, output, build_timeout)
        if lifetime is not None:
            lifetime = within("lifetime", lifetime, 0.001, 366 * 86400, "seconds")
        kept = wall or (None if isolation == "auto" else default.wall(isolation))
        super().__init__(Order(limits, checked_mounts(mounts), None, lifetime), checked_env(env), kept)
        self.tools = AsyncTools(tools)
        self.contexts = AsyncContexts(self)
        self.checkpoints = AsyncCheckpoints(self, checkpoints)
        self._undo = undo
        self._before_runs: list[AsyncCheckpoint | ClocheError] = []  # what `undo` goes back to, or why it cannot
        self._history: deque[Moment] = deque(maxlen=MAX_HISTORY)
        # What cells display beyond the usual: {"rows": of a table, "saved": pictures, too, that are saved to a file}
        self.shows: dict[str, Any] | None = None

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
        """Run a cell: variables, imports and files of earlier ones are there, and it leaves its own."""
        data = None if stdin is None else checked_data("stdin", stdin)
        keep = self.limits.output_bytes
        cell, where = await self._start(code, language, context, data is not None, env, timeout, keep)
        try:
            result = await cell.finish(data)
        finally:
            await where.free(cell)
        self._note_run(where, code, result)
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
    ) -> AsyncCellEvents:
        """Run a cell; iterate over its events as they happen: started, stdout, stderr, result, error, end.

        The result at the end has the beginning of its output, `keep` bytes of it (a megabyte unless said otherwise).
        With `interactive`, code that reads its standard input waits for what the events' `write` is given.
        """
        data = None if stdin is None else checked_data("stdin", stdin)
        if interactive and data is not None:
            raise InvalidRun("stdin= is all of the input, and interactive=True takes more.", hint="Choose one of them.")

        async def start() -> tuple[AsyncCell, AsyncContext]:
            kept = min(self.limits.output_bytes, STREAM_KEEPS if keep is None else keep)
            has_input = "interactive" if interactive else data is not None
            return await self._start(code, language, context, has_input, env, timeout, kept)

        async def over(cell: AsyncCell, where: AsyncContext) -> None:
            await where.free(cell)
            if cell.result is not None:
                self._note_run(where, code, cell.result)

        return AsyncCellEvents(start, over, data, interactive)

    async def interrupt(self, context: str | AsyncContext | None = None) -> None:
        """Have what runs stop, in one context or in all; variables stay."""
        for where in [self.contexts.get(context)] if context is not None else self.contexts.busy():
            await where.interrupt()

    async def restart(self, context: str | AsyncContext | None = None) -> None:
        """End the kernel of one context, or all: the next run starts with no variables.  Files stay."""
        for where in [self.contexts.get(context)] if context is not None else self.contexts.list():
            await where.restart()
            self._history.append(Moment("restart", time(), where.id))

    # --- undo

    async def checkpoint(self, name: str = "") -> AsyncCheckpoint:
        """Remember variables (of Python contexts) and files as they are now."""
        taken = await self.checkpoints.take(name)
        self._history.append(checkpoint_moment(taken))
        return taken

    async def restore(self, checkpoint: str | AsyncCheckpoint) -> Restored:
        """Make variables and files what they were; as often as you like."""
        found = self.checkpoints.get(checkpoint)
        restored = await self.checkpoints.restore(found)
        self._history.append(checkpoint_moment(found, "restore"))
        return restored

    async def branch(
        self,
        checkpoint: str | AsyncCheckpoint | None = None,
        *,
        files: str = "shared",
        context: str | AsyncContext | None = None,
    ) -> AsyncContext:
        """A new context that goes on from a checkpoint's variables, or from the live ones.

        Files are shared with everybody; `files="copy"` gives it a copy of /sandbox as its working directory instead.
        """
        source = await self._source(checkpoint, context)
        branch = await self.checkpoints.branch(checkpoint, source, files)
        self._history.append(Moment("branch", time(), branch.id))
        return branch

    async def undo(self) -> Restored:
        """Go back to before the last run; again, to before the one before it.  Wants `Sandbox(undo=True)`."""
        if not self._undo:
            raise InvalidRun("This sandbox keeps no checkpoints of its runs.", hint="Make it with Sandbox(undo=True).")
        last = self._before_runs[-1] if self._before_runs else None
        if isinstance(last, ClocheError):
            raise Gone(f"The last run cannot be undone, for no checkpoint could be made: {last.message}", last.hint)
        if last is None or last.removed:
            raise Gone("There is no run left to undo.")
        restored = await self.checkpoints.restore(last)
        self._before_runs.pop()
        await self.checkpoints.remove(last)
        self._history.append(Moment("undo", time()))
        return restored

    def history(self) -> list[Moment]:
        """Runs, checkpoints, restores … in order; the last thousand."""
        return list(self._history)

    async def attempt(
        self, code: str, *, context: str | AsyncContext | None = None, timeout: float | None = None
    ) -> AsyncAttempt:
        """Run code in a branch and see what it changes; then `keep()` it or `discard()` it."""
        source = await self._living(context)

        async def run(branch: AsyncContext) -> Result:
            return await self.run(code, context=branch, timeout=timeout)

        return await attempt(self, source, run)

    async def best_of(
        self,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        *,
        context: str | AsyncContext | None = None,
        timeout: float | None = None,
    ) -> Best:
        """Run candidates in branches from here, and go on as the one with the highest score.

        `score` is an expression, evaluated in each branch, or a function of yours that gets the result.  Each works in
        a copy of /sandbox; candidates that name an absolute path of it run one after the other instead.
        """
        source = await self._living(context)
        return await best_of(self, source, candidates, score, timeout)

    # --- behind them

    async def _start(
        self,
        code: str,
        language: str | None,
        context: str | AsyncContext | None,
        has_input: bool | str,
        env: Mapping[str, str] | None,
        timeout: float | None,
        keep: int,
    ) -> tuple[AsyncCell, AsyncContext]:
        request: dict[str, Any] = {"code": checked_code(code), "input": has_input, "env": checked_env(env) or None}
        limits = self.limits_with(timeout)
        where = self._context(language, context)
        request["timeout"] = limits.timeout_s
        if self.shows is not None:
            request["shows"] = self.shows
        request["language"] = where.language if language is None else languages.find(language).name
        request["context"], request["create"] = where.id, where.description(self.env, self.tools.names())
        await self.open()
        if where.how is None:
            return await self._start_program(where, request, limits, keep), where
        if self._undo and where.language == "python" and not where.is_branch:
            await self._remember()
        await where.take()
        cell = AsyncCell(self, request, limits, self.tools, keep)
        where.occupy(cell)
        try:
            await cell.begin()
        except BaseException:
            await where.free(cell)
            raise
        return cell, where

    async def _start_program(
        self, where: AsyncContext, request: dict[str, Any], limits: Limits, keep: int
    ) -> AsyncCell:
        """A language without sessions: a program, which finds the files of earlier ones and nothing else."""
        from cloche.engine.program_cells import AsyncProgramCell

        options = {
            "language": where.language,
            "env": request["env"],
            "timeout": limits.timeout_s,
            "stdin": bool(request["input"]),
        }
        await where.take()
        cell = AsyncProgramCell(self, request["code"], options, keep)
        where.occupy(cell)
        try:
            await cell.begin()
        except BaseException:
            cell.over = True
            await where.free(cell)
            raise
        return cell

    async def _remember(self) -> None:
        """A checkpoint for `undo`.  Without room for one the code runs all the same: it may be there to make some."""
        try:
            self._before_runs.append(await self.checkpoints.take())
        except (FileProblem, Refused) as problem:
            self._before_runs.append(problem)
        del self._before_runs[:-MOST]

    async def went_on(self, before: AsyncCheckpoint) -> None:
        """An attempt was kept: that is a run, too."""
        if self._undo:
            before.pinned = False
            self._before_runs.append(before)
        else:
            await self.checkpoints.remove(before)

    def _context(self, language: str | None, context: str | AsyncContext | None) -> AsyncContext:
        if context is None:
            return self.contexts.default(language or "python")
        where = self.contexts.get(context)
        if language is not None:
            spoken = languages.find(language)
            if where.how != spoken.kernel:
                raise InvalidRun(f"The context {where.id} is for {where.language}, not for {spoken.name}.")
        return where

    async def _source(
        self, checkpoint: str | AsyncCheckpoint | None, context: str | AsyncContext | None
    ) -> AsyncContext:
        """What to branch from: of a checkpoint also a context that is not there any more."""
        if checkpoint is not None:
            name = "python" if context is None else context if isinstance(context, str) else context.id
            for known in self.checkpoints.get(checkpoint).contexts:
                if known.id == name:
                    return known
        return await self._living(context)

    async def _living(self, context: str | AsyncContext | None) -> AsyncContext:
        """A Python context, known to the agent, to branch from."""
        where = self._context(None, context)
        if where.language != "python":
            raise InvalidRun(f"Only Python contexts can be branched, and {where.id} is for {where.language}.")
        await self.open()
        await self.contexts.ensure(where)
        return where

    def _note_run(self, where: AsyncContext, code: str, result: Result) -> None:
        error = None if result.error is None else result.error.kind
        self._history.append(Moment("run", time(), where.id, code, error))
