"""Runs: code that a caller has started.  Each is recorded before it starts and has exactly one outcome."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError, Gone, InvalidRun, SandboxFailed
from cloche.io.tasks import LARGE, off_loop
from cloche.model.limits import Limits
from cloche.model.records import RunRecord
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.service.admission import Admission
from cloche.service.charges import Charges
from cloche.service.event_log import EventLog, LogEntry, characters_of
from cloche.service.events import NoResult, OfRun
from cloche.service.identity import new_id
from cloche.service.recording import recorded
from cloche.service.retention import Retention
from cloche.service.run import CallerFailed, Feed, Run, current
from cloche.service.verbs import verb
from cloche.store.journal import Journal
from cloche.store.store import Store

if TYPE_CHECKING:
    from cloche.service.live import LiveSandbox

log = logging.getLogger("cloche.runs")

_LOG_S = 0.1  # delay of a log line: the client gets the outcome first, and no turn waits for another's log line
_LOG_LINES = 16  # log lines that are written at a time


class Runs:
    """All runs of this server."""

    def __init__(
        self, store: Store, journal: Journal, admission: Admission, charges: Charges, retention: Retention
    ) -> None:
        self._store, self._journal, self._admission, self._charges = store, journal, admission, charges
        self.retention = retention
        self._active: dict[str, Run] = {}
        self._finished: dict[str, Run] = {}
        self._unlogged: deque[RunRecord] = deque()  # outcomes that are not in the server's log yet
        self.counts: dict[str, int] = {}  # by outcome, since the start
        self.when_bytes_are_spent: Callable[[Run], None] | None = None

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
        digest = await off_loop(len(code), lambda: sha256(code.encode(errors="surrogatepass")).hexdigest())
        meter = self._charges.account(caller).meter
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
            code_sha256=digest,
            state="running",
            started=time(),
            limits=limits.as_dict(),
            bytes_moved=bytes_moved,
        )
        run = Run(record, feed, self.retention.live)
        try:
            self._journal.note(record)
        except BaseException:
            meter.end_run()
            self._admission.leave(slot)
            raise
        self._active[run.id] = run

        def charge_output(size: int) -> None:
            meter.use(byte_count=size)
            if meter.are_bytes_spent and self.when_bytes_are_spent is not None:
                self.when_bytes_are_spent(run)

        run.charge_output = charge_output

        def over(_: asyncio.Task[None]) -> None:
            if not run.over:  # the run was cancelled before its first step
                run.problem = _called_off()
                self._conclude(run, "interrupted", None, False)
            # The time of a run in a sandbox that lives on is charged with the sandbox.
            cpu_s = 0.0 if sandbox else run.record.cpu_time - run.cpu_charged
            meter.end_run(cpu_s, run.record.bytes_moved - run.output_charged)
            run.charge_output = None
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

        account = self._charges.account(caller)

        async def charged(run: Run) -> Result:
            await live.begin_work(account)
            try:
                result = await work(run)
            finally:
                await live.settle(account)
                live.end_work(account)
            if live.is_cpu_counted is False:  # only the program itself tells
                account.charge(result.cpu_time)
            if account.meter.limits_cpu:
                self._charges.record()
            return result

        return await self.start(
            caller,
            charged,
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
        run = self._living(caller, identity)
        self._charges.account(caller).meter.move(len(data))
        await run.write(data, eof)

    @verb("run")
    def answer(self, caller: Caller, identity: str, call: int, value: Any, error: dict[str, str] | None) -> None:
        """Answer a question of a run: the value of a tool, or a score."""
        self._living(caller, identity).answer(call, value, error)

    def is_full(self, caller: Caller) -> bool:
        """Return whether a new run of this caller would have to wait."""
        return self._admission.is_full(caller.key_id)

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

    async def charge(self, run: Run) -> None:
        """Charge a run in a sandbox of its own for what it has used so far, and record that."""
        used = None if run.measure is None else await run.measure()
        if run.over or used is None or used <= run.cpu_charged:
            return
        self._charges.account_of(run.record.key).meter.use(used - run.cpu_charged)
        run.cpu_charged = used
        run.record = replace(run.record, cpu_time=used)
        try:
            self._journal.note(run.record)
        except ClocheError as problem:
            log.error("the CPU time of run %s could not be recorded: %s", run.id, problem.message)

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
        state, text, is_whole = "interrupted", None, False
        current.set(run)
        try:
            result = run.judged(await work(run))
            size = characters_of(result, LARGE)
            text, is_whole = await off_loop(size, lambda: recorded(result, run.id, run.record.context))
            run.result, state = result, "done" if result.error is None else "failed"
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
            self._conclude(run, state, text, is_whole)

    def _conclude(self, run: Run, state: str, text: str | None, is_whole: bool) -> None:
        del self._active[run.id]
        self.counts[state] = self.counts.get(state, 0) + 1
        if run.result is None:
            assert run.problem is not None
            run.publish_last(NoResult(run.problem))
        ended = _ended(run, state, text)
        try:
            self._journal.note(ended)
        except ClocheError as problem:  # the disk is full: only this process knows the outcome
            log.error("the outcome of run %s could not be recorded: %s", run.id, problem.message)
            if run.result is None:
                run.problem = run.problem or problem
        run.conclude(ended, is_whole=is_whole)
        self._finished[run.id] = run
        run.when_forgotten = self._finished.pop
        self.retention.add(run)
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


def _ended(run: Run, state: str, text: str | None) -> RunRecord:
    now, record, result = time(), run.record, run.result
    if result is None:
        code = None if run.problem is None else run.problem.code
        moved = record.bytes_moved + run.output_charged
        return replace(
            record, state=state, ended=now, error_kind=code, duration=now - record.started, bytes_moved=moved
        )
    kept = len(result.stdout_bytes) + len(result.stderr_bytes)  # a run to which nobody listens has published nothing
    return replace(
        record,
        state=state,
        ended=now,
        exit_code=result.exit_code,
        error_kind=None if result.error is None else result.error.kind,
        bytes_moved=record.bytes_moved + max(kept, run.output_charged),
        duration=result.duration,
        cpu_time=max(result.cpu_time, record.cpu_time, run.cpu_counted),
        memory_peak=result.memory_peak,
        result=text,
    )
