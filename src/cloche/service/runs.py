"""Runs: code that a caller has started.  Each is recorded before it starts and has exactly one outcome."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any, Protocol

from cloche.errors import ClocheError, Gone, InvalidRun, SandboxFailed
from cloche.model.events import CellEvent, End, Event, Exit, Failed, Started
from cloche.model.limits import Limits
from cloche.model.records import RunRecord
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.keys import Keyring
from cloche.service.admission import Admission
from cloche.service.event_log import EventLog, LogEntry
from cloche.service.events import AttemptEnded, ContestEnded, LoggedEvent, NoResult, OfRun, RunEnded, RunStarted
from cloche.service.identity import new_id
from cloche.service.recording import recorded
from cloche.service.verbs import verb
from cloche.store.journal import Journal
from cloche.store.store import Store

if TYPE_CHECKING:
    from cloche.service.live import LiveSandbox

log = logging.getLogger("cloche.runs")

_LOG_S = 0.1  # delay of a log line: the client gets the outcome first, and no turn waits for another's log line
_LOG_LINES = 16  # log lines that are written at a time
MAX_LOG = 64 << 20  # characters of one run's events
MAX_FINISHED = 256 << 20  # bytes of all runs that are over, with their events and results
MAX_FINISHED_RUNS = 2000

Feed = Callable[[str, LogEntry], None]  # gets the id of a run and each of its events

current: ContextVar[Run] = ContextVar("run")  # the run whose code calls a tool


class CallerFailed(Exception):
    """A function of the caller raised an exception."""


class InputTarget(Protocol):
    """A program or a cell that takes input."""

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...


class Run:
    """One run, from its start until the server forgets it."""

    def __init__(self, record: RunRecord, feed: Feed | None = None) -> None:
        self.record = record
        self.id, self.owner = record.id, record.owner
        self.log = EventLog(MAX_LOG, None if feed is None else partial(feed, record.id))
        self.result: Result | None = None
        self.ended: RunEnded | None = None  # once the result is recorded
        self.problem: ClocheError | None = None  # why there is no result
        self.control: InputTarget | None = None
        self.stop: Callable[[], Awaitable[None]] | None = None
        self.task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._over = asyncio.Event()
        self._last: AttemptEnded | ContestEnded | NoResult | None = None
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._called = 0

    # --- while the run is under way

    def publish(self, event: Event | CellEvent) -> None:
        """Add an event of the program or the cell to the log."""
        if isinstance(event, End | Exit):  # `conclude` publishes the end, once it is recorded
            self.log.flush()
            error = self.judged(event.result).error if isinstance(event, Exit) else None
            if error is not None:
                self.log.add(Failed(error))
        else:
            self.log.add(RunStarted(self.id, event.pid) if isinstance(event, Started) else event)

    def publish_last(self, event: AttemptEnded | ContestEnded | NoResult) -> None:
        """Add the last event once the outcome is recorded, so that an outcome that a client has read is never lost."""
        self._last = event

    async def ask(self, question: Callable[[int], LoggedEvent]) -> Any:
        """Send a question to the client that follows this run, and wait for the answer; `question` gets its number."""
        self._called += 1
        number = self._called
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.log.add(question(number))
            return await future
        finally:
            del self._calls[number]

    def answer(self, call: int, value: Any, error: dict[str, str] | None) -> None:
        """Pass on the client's answer to a question."""
        future = self._calls.get(call)
        if future is None or future.done():
            raise Gone(f"Nobody waits for the answer to call {call}.")
        if error is None:
            future.set_result(value)
        else:
            name = error.get("name", "")[:100]
            kind = type(name if name.isidentifier() else "ToolError", (CallerFailed,), {})
            future.set_exception(kind(str(error.get("message", ""))[:2000]))

    async def write(self, data: bytes, eof: bool) -> None:
        """Write to the standard input; `eof` ends it."""
        if self._over.is_set():
            raise Gone("The run is over.", hint="Only a run under way takes input.")
        if self.control is None:
            raise InvalidRun("This run takes no input.", hint='Start it with "interactive": true.')
        if data:
            await self.control.write(data)
        if eof:
            await self.control.close_stdin()

    async def cancel(self) -> None:
        """Stop the run; its outcome says so.  Does nothing when the run is over."""
        if self._over.is_set():
            return
        self._cancelled = True
        if self.stop is not None:
            try:
                await self.stop()
            except Gone:
                pass  # the sandbox has ended, and the run with it
        elif self.task is not None:
            self.task.cancel()  # the run has not even started

    # --- when the run is over

    def judged(self, result: Result) -> Result:
        """Return the result for the caller: a program that was cancelled was killed by our own signal."""
        error = result.error
        if not self._cancelled or error is None or error.kind != "killed" or result.execution_count is not None:
            return result  # the result of a cell says already that it was cancelled
        return result.replace(
            error=error.replace(message="The run was cancelled.", hint="Run it again if it is wanted.")
        )

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @property
    def size(self) -> int:
        """Estimate the run's size in bytes: its events, its recorded result, and its output as bytes and as text."""
        result = self.result
        printed = 0 if result is None else len(result.stdout_bytes) + len(result.stderr_bytes)
        return self.log.size + len(self.record.result or "") + 2 * printed

    async def outcome(self) -> Result:
        """Wait for the end; raise the reason when there is no result."""
        await self._over.wait()
        if self.problem is not None:
            raise self.problem
        assert self.result is not None
        return self.result

    def conclude(self, record: RunRecord, *, is_whole: bool) -> None:
        """Publish the end, now that it is recorded; `is_whole` says whether the record has all of the result."""
        self.record = record
        self.control = self.stop = None
        if self.result is not None:
            text = (record.result or "") if is_whole else ""
            self.ended = RunEnded(self.id, record.context, self.result, text)
        last = self._last or self.ended
        if last is not None:
            self.log.add(last)
        self.log.end()
        self._over.set()


class Runs:
    """All runs of this server."""

    def __init__(self, store: Store, journal: Journal, admission: Admission, keyring: Keyring) -> None:
        self._store, self._journal, self._admission, self._keyring = store, journal, admission, keyring
        self._active: dict[str, Run] = {}
        self._finished: OrderedDict[str, Run] = OrderedDict()
        self._finished_size = 0
        self._unlogged: deque[RunRecord] = deque()  # outcomes that are not in the server's log yet
        self.counts: dict[str, int] = {}  # by outcome, since the start

    async def start(
        self,
        caller: Caller,
        work: Callable[[Run], Awaitable[Result]],
        *,
        language: str,
        code: str,
        limits: Limits,
        sandbox: str | None = None,
        context: str = "",
        bytes_moved: int = 0,
        feed: Feed | None = None,
    ) -> Run:
        """Start a run as soon as there is room; raise TooMany or Busy when there is none."""
        meter = self._keyring.meter(caller)
        meter.begin_run()
        slot = self._admission.slot(caller.key_id, memory_bytes=limits.memory_bytes, cpu=limits.cpu)
        try:
            await self._admission.enter(slot)
        except BaseException:
            meter.end_run()
            raise
        record = RunRecord(
            id=new_id("run"),
            owner=caller.owner,
            key=caller.key_id,
            sandbox=sandbox,
            context=context,
            language=language,
            code_sha256=sha256(code.encode(errors="surrogatepass")).hexdigest(),
            state="running",
            started=time(),
            limits=limits.as_dict(),
            bytes_moved=bytes_moved,
        )
        run = Run(record, feed)
        try:
            self._journal.note(record)
        except BaseException:
            meter.end_run()
            self._admission.leave(slot)
            raise
        self._active[run.id] = run

        def over(_: asyncio.Task[None]) -> None:
            if not run.over:  # the run was cancelled before its first step
                run.problem = _called_off()
                self._conclude(run, "interrupted")
            meter.end_run(run.record.cpu_time, run.record.bytes_moved)
            self._admission.leave(slot)
            run.task = None  # the task's context refers to the run: a cycle that would keep the output alive

        run.task = asyncio.create_task(self._carry_out(run, work))
        run.task.add_done_callback(over)
        return run

    async def start_in(
        self,
        caller: Caller,
        live: LiveSandbox,
        work: Callable[[Run], Awaitable[Result]],
        code: str,
        language: str = "python",
        context: str = "",
        bytes_moved: int = 0,
    ) -> Run:
        """Start a run in a living sandbox, whose feed gets its events."""

        def feed(run_id: str, entry: LogEntry) -> None:
            shown = code[:10_000] if entry.kind == "started" else ""
            live.publish(OfRun(run_id, entry.event, shown), entry.size + len(shown))

        return await self.start(
            caller,
            work,
            language=language,
            code=code,
            limits=live.limits,
            sandbox=live.id,
            context=context,
            bytes_moved=bytes_moved,
            feed=feed,
        )

    # --- operations for callers

    @verb("read")
    async def list(
        self, caller: Caller, *, sandbox: str | None, state: str | None, limit: int, after: str | None
    ) -> tuple[Sequence[RunRecord], str | None]:
        """Return a page of runs, newest first, and where the next page begins."""
        await self._journal.flush()
        return await self._store.runs(caller.owner, sandbox=sandbox, state=state, limit=limit, after=after)

    @verb("read")
    async def record(self, caller: Caller, identity: str) -> RunRecord:
        """Return the record of a run; raise Gone if there is none."""
        known = self._known(caller, identity)
        if known is not None:
            return known.record
        await self._journal.flush()
        record = await self._store.run(caller.owner, identity)
        if record is None:
            raise _unknown()
        return record

    @verb("read")
    async def follow(self, caller: Caller, identity: str) -> EventLog | None:
        """Return the events of a run; None when they are not kept any more."""
        known = self._known(caller, identity)
        if known is None:
            await self.record(caller, identity)
        return None if known is None else known.log

    @verb("run")
    async def cancel(self, caller: Caller, identity: str) -> None:
        """Stop a run; its outcome says so.  A run that is over stays as it is."""
        known = self._known(caller, identity)
        if known is None:
            await self.record(caller, identity)
        else:
            await known.cancel()

    @verb("run")
    async def write(self, caller: Caller, identity: str, data: bytes, *, eof: bool) -> None:
        """Write to the standard input of a run that was started as interactive."""
        await self._living(caller, identity).write(data, eof)

    @verb("run")
    def answer(self, caller: Caller, identity: str, call: int, value: Any, error: dict[str, str] | None) -> None:
        """Answer a question of a run: the value of a tool, or a score."""
        self._living(caller, identity).answer(call, value, error)

    def is_full(self) -> bool:
        """Return whether a new run would have to wait."""
        return self._admission.is_full()

    def _known(self, caller: Caller, identity: str) -> Run | None:
        run = self._active.get(identity) or self._finished.get(identity)
        return run if run is not None and run.owner == caller.owner else None

    def _living(self, caller: Caller, identity: str) -> Run:
        known = self._known(caller, identity)
        if known is None:
            raise _unknown()
        return known

    # --- running

    def active(self) -> Sequence[Run]:
        return tuple(self._active.values())

    async def stop(self, grace_s: float) -> None:
        """Let runs finish for `grace_s` seconds, then end them."""
        tasks = [run.task for run in self._active.values() if run.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        while self._unlogged:
            self._log_some()

    async def _carry_out(self, run: Run, work: Callable[[Run], Awaitable[Result]]) -> None:
        state = "interrupted"
        current.set(run)
        try:
            run.result = run.judged(await work(run))
            state = "done" if run.result.error is None else "failed"
        except asyncio.CancelledError:
            run.problem = _called_off()
        except ClocheError as problem:
            run.problem, state = problem, "failed"
        except CallerFailed as problem:
            run.problem, state = InvalidRun(f"The caller's function failed: {problem}"), "failed"
        except Exception:
            log.exception("run %s failed by our own fault", run.id)
            run.problem, state = SandboxFailed("Something went wrong on our side.", hint="Try again."), "failed"
        finally:
            self._conclude(run, state)

    def _conclude(self, run: Run, state: str) -> None:
        del self._active[run.id]
        self.counts[state] = self.counts.get(state, 0) + 1
        record, result = run.record, run.result
        text, is_whole = None, False
        if result is None:
            assert run.problem is not None
            run.publish_last(NoResult(run.problem))
        else:
            text, is_whole = recorded(result, record.id, record.context)
        ended = _ended(record, state, result, run.problem, text)
        try:
            self._journal.note(ended)
        except ClocheError as problem:  # the disk is full: only this process knows the outcome
            log.error("the outcome of run %s could not be recorded: %s", run.id, problem.message)
            if run.result is None:
                run.problem = run.problem or problem
        run.conclude(ended, is_whole=is_whole)
        self._finished[run.id] = run
        self._finished_size += run.size
        while self._finished_size > MAX_FINISHED or len(self._finished) > MAX_FINISHED_RUNS:
            _, oldest = self._finished.popitem(last=False)
            self._finished_size -= oldest.size
        if not self._unlogged:
            asyncio.get_running_loop().call_later(_LOG_S, self._log_more)
        self._unlogged.append(ended)

    def _log_more(self) -> None:
        self._log_some()
        if self._unlogged:
            asyncio.get_running_loop().call_soon(self._log_more)

    def _log_some(self) -> None:
        for _ in range(min(_LOG_LINES, len(self._unlogged))):
            record = self._unlogged.popleft()
            fields = {"run": record.id, "owner": record.owner, "state": record.state, "error": record.error_kind}
            log.info("run %s %s", record.id, record.state, extra=fields)


def _unknown() -> Gone:
    return Gone("There is no such run.", hint="GET /v1/runs lists your runs.")


def _called_off() -> Gone:
    return Gone("The run was called off.", hint="Run it again.")


def _ended(
    record: RunRecord, state: str, result: Result | None, problem: ClocheError | None, text: str | None
) -> RunRecord:
    now = time()
    if result is None:
        code = None if problem is None else problem.code
        return replace(record, state=state, ended=now, error_kind=code, duration=now - record.started)
    return replace(
        record,
        state=state,
        ended=now,
        exit_code=result.exit_code,
        error_kind=None if result.error is None else result.error.kind,
        bytes_moved=record.bytes_moved + len(result.stdout_bytes) + len(result.stderr_bytes),
        duration=result.duration,
        cpu_time=result.cpu_time,
        memory_peak=result.memory_peak,
        result=text,
    )
