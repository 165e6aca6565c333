"""A run: code that a caller has started, its events so far, and its one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from cloche.errors import ClocheError, Gone, InvalidRun
from cloche.model.events import CellEvent, End, Event, Exit, Failed, Output, Shown, Started
from cloche.model.records import RunRecord
from cloche.model.result import Error, Result
from cloche.service.event_log import EventLog, LogEntry, shown_size, size_of
from cloche.service.events import AttemptEnded, ContestEnded, LoggedEvent, NoResult, RunEnded, RunStarted
from cloche.service.log_space import LogSpace

MAX_LOG = 64 << 20  # characters of one run's events
STOPPED_HINT = "The count starts again at midnight UTC. Ask the operator for more, or use another key."

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

    def __init__(self, record: RunRecord, feed: Feed | None = None, space: LogSpace | None = None) -> None:
        self.record = record
        self.id, self.owner = record.id, record.owner
        self.log = EventLog(MAX_LOG, None if feed is None else partial(feed, record.id), space)
        self.when_forgotten: Callable[[str], object] | None = None
        self.result: Result | None = None
        self.ended: RunEnded | None = None  # once the result is recorded
        self.problem: ClocheError | None = None  # why there is no result
        self.control: InputTarget | None = None
        self.stop: Callable[[], Awaitable[None]] | None = None
        self.task: asyncio.Task[None] | None = None
        self.measure: Callable[[], Awaitable[float | None]] | None = None  # the CPU time of its own sandbox
        self.cpu_charged = 0.0  # while it runs
        self.charge_output: Callable[[int], None] | None = None  # counts bytes of output for the key's day
        self.output_charged = 0
        self.cpu_counted = 0.0  # by its wall, when it has ended
        self._cancelled = False
        self._stopped = ""  # why the server stopped it, if it did
        self._over = asyncio.Event()
        self._outcome: asyncio.Future[Result] | None = None  # for clients that wait for it
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
            self._charge(event)
            self.log.add(RunStarted(self.id, event.pid) if isinstance(event, Started) else event)

    def _charge(self, event: Event | CellEvent) -> None:
        if isinstance(event, Output):
            size = len(event.data)
        elif isinstance(event, Shown):
            size = shown_size(event.result)
        else:
            return
        self.output_charged += size
        if self.charge_output is not None:
            self.charge_output(size)

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

    async def stop_because(self, reason: str) -> None:
        """Stop the run for the server's own reason, which its outcome gives."""
        self._stopped = reason
        await self.cancel()

    # --- when the run is over

    def judged(self, result: Result) -> Result:
        """Return the result for the caller: a program that was cancelled was killed by our own signal."""
        error = result.error
        if self._stopped and error is not None:
            return result.replace(error=Error("killed", self._stopped, STOPPED_HINT))
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
        result = 0 if self.result is None else size_of(self.result)
        return self.log.size + len(self.record.result or "") + result

    @property
    def is_read(self) -> bool:
        """Whether a client follows the run."""
        return self.log.is_read

    async def outcome(self) -> Result:
        """Wait for the end; raise the reason when there is no result."""
        if not self._over.is_set():
            # A client that waits gets the result even if the server forgets the run before the client's task runs.
            if self._outcome is None:
                self._outcome = asyncio.get_running_loop().create_future()
            return await asyncio.shield(self._outcome)
        if self.problem is not None:
            raise self.problem
        if self.result is None:
            raise self.forgotten_problem()
        return self.result

    def forget(self) -> None:
        """Give up events and result: the server keeps too much, or nobody has read them for too long."""
        ended, self.ended = self.ended, None
        record = self.record.result
        if ended is not None and record is not None and self._last is None:
            empty = ended.result.replace(stdout="", stderr="", stdout_bytes=b"", stderr_bytes=b"", logs=(), results=())
            self.log.forget(RunEnded(self.id, ended.context, empty, record))
        else:
            self.log.forget()
        self.result = self._last = None
        if self.when_forgotten is not None:
            self.when_forgotten(self.id)

    def forgotten_problem(self) -> Gone:
        """The reason why a result that was there is not there any more."""
        return Gone(
            "The result of this run was not read in time, and the server does not keep all of it any more.",
            hint="GET /v1/runs/{id} has the result, with its output cut.",
        )

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
        waiting, self._outcome = self._outcome, None
        if waiting is not None and self.result is not None:
            waiting.set_result(self.result)
        elif waiting is not None:
            assert self.problem is not None
            waiting.set_exception(self.problem)
            waiting.exception()  # the clients may all have left
