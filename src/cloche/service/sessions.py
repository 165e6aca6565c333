"""The verbs about sessions: code in contexts, checkpoints and restores, history, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche import languages
from cloche.configuration import Configuration
from cloche.errors import FileProblem, InvalidRun
from cloche.model.history import Moment, Restored, VariableList
from cloche.model.result import Result
from cloche.policy import limits
from cloche.policy.caller import Caller
from cloche.service import comparison
from cloche.service.run import Run
from cloche.service.runs import Runs
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.sandbox.checkpoints import AsyncCheckpoint
    from cloche.sandbox.contexts import AsyncContext
    from cloche.service.lifecycle import Lifecycle


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """A context of a session."""

    id: str
    language: str
    cwd: str | None
    is_branch: bool
    lost: Mapping[str, Any]  # what a branch could not take along


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint of a session."""

    id: str
    name: str
    time: float
    lost: Mapping[str, Any]  # what a checkpoint cannot keep, by context: threads, sockets, child processes


class Sessions:
    """Runs code that keeps its variables, and goes back to earlier states."""

    def __init__(self, configuration: Configuration, lifecycle: Lifecycle, runs: Runs) -> None:
        self._configuration, self._lifecycle, self._runs = configuration, lifecycle, runs

    @verb("run", starts="cell")
    async def run(
        self,
        caller: Caller,
        sandbox: str,
        code: str,
        *,
        language: str | None = None,
        context: str | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        interactive: bool = False,
        keep: int | None = None,
        keeps_all: bool = False,
        shows: Mapping[str, Any] | None = None,
    ) -> Run:
        """Start a cell.  It runs to its end, whether or not a client listens.

        `keep` is how many bytes of output the result has: the first megabyte by default, or all with `keeps_all`.
        `shows` is what this cell displays beyond the usual: more rows of a table, saved pictures.
        """
        self.check_timeout(timeout)
        live = await self._lifecycle.find(caller, sandbox)
        events = live.box.stream(
            code,
            language=language,
            context=context,
            stdin=stdin,
            env=env,
            timeout=timeout,
            interactive=interactive,
            keep=live.limits.output_bytes if keeps_all else keep,
            shows=shows,
        )

        async def work(run: Run) -> Result:
            async def stop() -> None:
                if events.began:
                    await events.interrupt()
                elif run.task is not None:
                    run.task.cancel()  # it still waits for its turn

            live.begin_use()
            try:
                run.stop = stop
                if interactive:
                    run.control = events
                async for event in events:
                    if event.kind == "end":
                        assert events.result is not None
                        await live.save_after(events.result)
                    run.publish(event)
                    await run.log.keep_pace()
                assert events.result is not None
                return events.result
            finally:
                live.end_use()

        chosen = languages.find(language or "python")
        where = context or chosen.context or chosen.name
        return await self._runs.start_in(caller, live, work, code, chosen.name, where, len(stdin or b""))

    def check_timeout(self, timeout: float | None) -> None:
        """Refuse a run that may take longer than the operator allows."""
        limits.check_value("timeout", timeout, self._configuration)

    @verb("run")
    async def interrupt(self, caller: Caller, sandbox: str, context: str | None = None) -> None:
        """Stop the code that runs in one context, or in all; variables stay."""
        live = await self._lifecycle.find(caller, sandbox)
        await live.box.interrupt(context)

    @verb("run", starts="kernel")
    async def restart(self, caller: Caller, sandbox: str, context: str | None = None) -> None:
        """End the kernel of one context, or of all: variables are lost, files stay."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.restart", context=context)
        async with live.used() as box:
            await box.restart(context)
        live.happened("restart", {"context": context})

    # --- contexts

    @verb("run", starts="kernel")
    async def create_context(
        self,
        caller: Caller,
        sandbox: str,
        language: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        make_folder: bool = False,
    ) -> ContextInfo:
        """Make a context without variables.  With `make_folder`, its working directory is made where it is missing."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.create_context", language=language)
        async with live.used() as box:
            if make_folder and cwd is not None:
                try:
                    await box.files.mkdir(cwd)
                except FileProblem:
                    pass  # it exists, or the context reports what is wrong
            context = await box.contexts.create(language=language, cwd=cwd, env=env)
        live.happened("context", {"context": context.id})
        return _context(context)

    @verb("read")
    async def contexts(self, caller: Caller, sandbox: str) -> Sequence[ContextInfo]:
        """The contexts, in the order in which they were made."""
        live = await self._lifecycle.find(caller, sandbox)
        return [_context(context) for context in live.box.contexts.list()]

    @verb("read")
    async def variables(
        self, caller: Caller, sandbox: str, context: str, search: str = "", name: str = ""
    ) -> VariableList:
        """The variables of a context, as far as they can be read without running its code."""
        live = await self._lifecycle.find(caller, sandbox)
        if _is_default(context) and all(known.id != context for known in live.box.contexts.list()):
            return VariableList((), 0)  # no code has run in it yet
        return await live.box.variables(context, search=search, name=name)

    @verb("run")
    async def default_context(self, caller: Caller, sandbox: str, language: str, cwd: str) -> ContextInfo:
        """The language's default context.  It begins in `cwd` unless code has run in it already."""
        live = await self._lifecycle.find(caller, sandbox)
        context = live.box.contexts.default(language)
        if not context.known and context.cwd is None:
            context.cwd = cwd
        return _context(context)

    @verb("run")
    async def remove_context(self, caller: Caller, sandbox: str, context: str) -> None:
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            await box.contexts.remove(context)

    # --- undo

    @verb("run", starts="kernel")
    async def checkpoint(self, caller: Caller, sandbox: str, name: str = "") -> CheckpointInfo:
        """Remember variables and files as they are now."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.checkpoint")
        async with live.used() as box:
            taken = await box.checkpoint(name)
        live.happened("checkpoint", {"checkpoint": taken.id, "name": taken.name})
        return _checkpoint(taken)

    @verb("read")
    async def checkpoints(self, caller: Caller, sandbox: str) -> Sequence[CheckpointInfo]:
        """The checkpoints, oldest first."""
        live = await self._lifecycle.find(caller, sandbox)
        return [_checkpoint(known) for known in live.box.checkpoints.list()]

    @verb("run")
    async def remove_checkpoint(self, caller: Caller, sandbox: str, checkpoint: str) -> None:
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            await box.checkpoints.remove(checkpoint)

    @verb("run", starts="kernel")
    async def restore(self, caller: Caller, sandbox: str, checkpoint: str) -> Restored:
        """Bring variables and files back to a checkpoint."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.restore", checkpoint=checkpoint)
        async with live.used() as box:
            restored = await box.restore(checkpoint)
        live.happened("restore", {"checkpoint": checkpoint})
        return restored

    @verb("run", starts="kernel")
    async def fork(
        self,
        caller: Caller,
        sandbox: str,
        checkpoint: str | None = None,
        *,
        files: str = "shared",
        context: str | None = None,
    ) -> ContextInfo:
        """Make a context that continues from a checkpoint's variables, or from the live ones."""
        live = await self._lifecycle.find_for_work(
            caller, sandbox, "session.fork", checkpoint=checkpoint, context=context
        )
        async with live.used() as box:
            branch = await box.branch(checkpoint, files=files, context=context)
        live.happened("fork", {"context": branch.id})
        return _context(branch)

    @verb("run", starts="kernel")
    async def undo(self, caller: Caller, sandbox: str) -> Restored:
        """Go back to before the last run, in a sandbox that was made with `undo`."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.undo")
        async with live.used() as box:
            restored = await box.undo()
        live.happened("undo", {})
        return restored

    @verb("read")
    async def history(self, caller: Caller, sandbox: str) -> Sequence[Moment]:
        """Runs, checkpoints and restores, in order."""
        live = await self._lifecycle.find(caller, sandbox)
        return live.box.history()

    @verb("run", starts="kernel")
    async def compare(
        self, caller: Caller, sandbox: str, before: str | None, after: str | None, context: str | None
    ) -> dict[str, Any]:
        """Which variables and files differ between two checkpoints; None is the present."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "session.compare", context=context)
        async with live.used() as box:
            return await comparison.compare(box, before, after, context)


def _is_default(context: str) -> bool:
    """Return whether a context of this name is made when code of its language runs for the first time."""
    try:
        chosen = languages.find(context)
    except InvalidRun:
        return False
    return chosen.kernel is not None and (chosen.context or chosen.name) == context


def _context(context: AsyncContext) -> ContextInfo:
    return ContextInfo(context.id, context.language, context.cwd, context.is_branch, context.lost)


def _checkpoint(checkpoint: AsyncCheckpoint) -> CheckpointInfo:
    return CheckpointInfo(checkpoint.id, checkpoint.name, checkpoint.time, checkpoint.lost)
