"""Runs: code under way on somebody's behalf.  Each is recorded before it starts and has exactly one outcome."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from hashlib import sha256
from json import dumps
from time import time
from typing import Any, Protocol

from cloche.errors import ClocheError, Gone, InvalidRun, SandboxFailed
from cloche.model.events import CellEvent, End, Event, Exit
from cloche.model.limits import Limits
from cloche.model.records import RunRecord
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.keys import Keyring
from cloche.service.admission import Admission
from cloche.service.events import Encoded, EventLog
from cloche.service.identity import new_id
from cloche.service.shapes import Telling, plain, problem_json, result_json, to_json
from cloche.store.journal import Journal

log = logging.getLogger("cloche.runs")

_LOG_S = 0.1  # so that whoever waits for the outcome has it first, and one turn does not wait for another's line
_LOG_LINES = 16  # at a time
MAX_LOG = 64 << 20  # characters of one run's events
MAX_FINISHED = 256 << 20  # bytes of runs that are over, their events and results, all together
MAX_FINISHED_RUNS = 2000
_ABOUT = 128  # characters of what is told with every event: whose it is, when it was
MAX_RECORDED = 64 << 10  # characters of each stream, and of what was displayed, that the store keeps

current: ContextVar[Run] = ContextVar("run")  # on whose behalf a tool is called


class CallerFailed(Exception):
    """A function of the caller's raised something."""


class Control(Protocol):
    """What runs: a program or a cell."""

    async def write(self, data: bytes) -> None:
        """More of its standard input."""

    async def close_stdin(self) -> None:
        """That was all of it."""


class Run:
    """Code under way, or over."""

    def __init__(self, record: RunRecord, feed: Callable[[str, dict[str, Any], int], None] | None = None) -> None:
        self.record = record
        self.id, self.owner = record.id, record.owner
        self.log = EventLog(MAX_LOG)
        self.result: Result | None = None
        self.told = Encoded()  # the same as JSON, once it is over
        self.problem: ClocheError | None = None  # why there is no result
        self.control: Control | None = None
        self.stop: Callable[[], Awaitable[None]] | None = None
        self.task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._feed = feed
        self._telling = Telling(record.id, record.context)
        self._over = asyncio.Event()
        self._last: list[tuple[str, dict[str, Any]]] = []
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._called = 0

    # --- while it is under way

    def tell(self, event: Event | CellEvent) -> None:
        """Something has happened in it."""
        if isinstance(event, End | Exit):  # told when it is recorded: see `conclude`
            for kind, told in self._telling.rest():
                self.say(kind, told)
            error = self.judged(event.result).error if isinstance(event, Exit) else None
            if error is not None:
                self.say("error", {"error": plain(error)})
        else:
            for kind, told in self._telling.tell(event):
                self.say(kind, told)

    def say(self, kind: str, told: dict[str, Any], size: int = 0) -> None:
        """Have those who listen know."""
        happened = self.log.add(kind, told, size)
        if self._feed is not None:
            self._feed(kind, {"run_id": self.id, **told}, happened.size + _ABOUT)

    def say_last(self, kind: str, told: dict[str, Any]) -> None:
        """The same, once the outcome is recorded: what is told is not lost any more."""
        self._last.append((kind, told))

    async def ask(self, kind: str, told: dict[str, Any]) -> Any:
        """Ask the one who follows this run for something, and wait for the answer."""
        self._called += 1
        number = self._called
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.say(kind, {"call": number, **told})
            return await future
        finally:
            del self._calls[number]

    def answer(self, call: int, value: Any, error: dict[str, str] | None) -> None:
        """The answer to what was asked."""
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
        """Input for it."""
        if self._over.is_set():
            raise Gone("The run is over.", hint="Only a run under way takes input.")
        if self.control is None:
            raise InvalidRun("This run takes no input.", hint='Start it with "interactive": true.')
        if data:
            await self.control.write(data)
        if eof:
            await self.control.close_stdin()

    async def cancel(self) -> None:
        """Have it stop; its outcome says so.  Does nothing when it is over."""
        if self._over.is_set():
            return
        self._cancelled = True
        if self.stop is not None:
            try:
                await self.stop()
            except Gone:
                pass  # its sandbox has ended meanwhile, and it with it
        elif self.task is not None:
            self.task.cancel()  # it has not even started

    # --- and then

    def judged(self, result: Result) -> Result:
        """What it came to; the signal that killed a program was ours if it was cancelled."""
        error = result.error
        if not self._cancelled or error is None or error.kind != "killed" or result.execution_count is not None:
            return result  # a cell's says so already
        return result.replace(
            error=error.replace(message="The run was cancelled.", hint="Run it again if it is wanted.")
        )

    @property
    def over(self) -> bool:
        """Has it ended?"""
        return self._over.is_set()

    @property
    def size(self) -> int:
        """How much it keeps, in bytes or so: events, the result as JSON, and its output as bytes and as text."""
        result = self.result
        printed = 0 if result is None else len(result.stdout_bytes) + len(result.stderr_bytes)
        return self.log.size + len(self.told) + 2 * printed

    async def outcome(self) -> Result:
        """Wait for its end; raises what kept it from having a result."""
        await self._over.wait()
        if self.problem is not None:
            raise self.problem
        assert self.result is not None
        return self.result

    def conclude(self, record: RunRecord) -> None:
        """It is over, and recorded."""
        self.record = record
        self.control = self.stop = None
        for kind, told in self._last:
            self.say(kind, told)
        if self.result is not None and not self._last:
            self.say("end", {"result": self.told}, len(self.told) + _ABOUT)
        self.log.end()
        self._over.set()


class Runs:
    """All runs of this server."""

    def __init__(self, journal: Journal, admission: Admission, keyring: Keyring) -> None:
        self._journal, self._admission, self._keyring = journal, admission, keyring
        self._active: dict[str, Run] = {}
        self._finished: OrderedDict[str, Run] = OrderedDict()
        self._finished_size = 0
        self._unlogged: deque[RunRecord] = deque()  # outcomes that the log has to tell
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
        feed: Callable[[str, dict[str, Any], int], None] | None = None,
    ) -> Run:
        """Begin one, as soon as there is room for it; raises TooMany or Busy when there is none."""
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
            if not run.over:  # it was called off before its first step
                run.problem = _called_off()
                self._conclude(run, "interrupted")
            meter.end_run(run.record.cpu_time, run.record.bytes_moved)
            self._admission.leave(slot)
            run.task = None  # its context leads back to the run: a circle that would keep all that it printed

        run.task = asyncio.create_task(self._carry_out(run, work))
        run.task.add_done_callback(over)
        return run

    def find(self, owner: str, identity: str) -> Run | None:
        """A run that is under way, or that was until lately."""
        run = self._active.get(identity) or self._finished.get(identity)
        return run if run is not None and run.owner == owner else None

    def active(self) -> list[Run]:
        """All that are under way."""
        return list(self._active.values())

    async def stop(self, grace_s: float) -> None:
        """Let those under way finish, for a while; then end them."""
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
        if result is not None:
            moved = record.bytes_moved + len(result.stdout_bytes) + len(result.stderr_bytes)
            error = None if result.error is None else result.error.kind
            run.told = Encoded(to_json(result_json(result, record.id, record.context)))
            ended = _ended(record, state, result.exit_code, error, moved, result, run.told)
        else:
            assert run.problem is not None
            told = problem_json(run.problem)
            run.say_last("error", {"error": told})
            ended = _ended(record, state, None, run.problem.code, record.bytes_moved, None, "")
        try:
            self._journal.note(ended)
        except ClocheError as problem:  # the disk is full: the outcome stays known to this process alone
            log.error("the outcome of run %s could not be recorded: %s", run.id, problem.message)
            if run.result is None:
                run.problem = run.problem or problem
        run.conclude(ended)
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
            told = {"run": record.id, "owner": record.owner, "state": record.state, "error": record.error_kind}
            log.info("run %s %s", record.id, record.state, extra=told)


def _called_off() -> Gone:
    return Gone("The run was called off.", hint="Run it again.")


def _ended(
    record: RunRecord,
    state: str,
    exit_code: int | None,
    error: str | None,
    moved: int,
    result: Result | None,
    told: str,
) -> RunRecord:
    now = time()
    return replace(
        record,
        state=state,
        ended=now,
        exit_code=exit_code,
        error_kind=error,
        bytes_moved=moved,
        duration=now - record.started if result is None else result.duration,
        cpu_time=0.0 if result is None else result.cpu_time,
        memory_peak=0 if result is None else result.memory_peak,
        result=None if result is None else recorded(result, told, record),
    )


def recorded(result: Result, as_told: str, record: RunRecord) -> str:
    """What the store keeps of a result: all that is small."""
    if len(as_told) <= MAX_RECORDED:
        return as_told
    told = result_json(result, record.id, record.context)
    told["logs"], told["tool_calls"] = [], []
    told.pop("stdout_base64", None)
    told.pop("stderr_base64", None)
    for stream in ("stdout", "stderr"):
        if len(told[stream]) > MAX_RECORDED:
            told[stream] = told[stream][:MAX_RECORDED]
            told["truncated"] = True
    room = 4 * MAX_RECORDED
    for shown in told["results"]:
        shown["mime"] = dict(shown["mime"])  # it is the result's own
        for mime, value in list(shown["mime"].items()):
            size = len(value) if isinstance(value, str) else len(dumps(value))
            room -= size
            if room < 0:
                shown["mime"][mime] = None if mime != "text/plain" else str(value)[:1000]
                told["truncated"] = True
    if told["error"] is not None:
        told["error"]["traceback_ansi"] = None
        for name in ("message", "traceback"):
            if told["error"][name] is not None:
                told["error"][name] = told["error"][name][:MAX_RECORDED]
    return to_json(told)
