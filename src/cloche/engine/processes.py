"""Programs of a sandbox of this host: starts them, sends input, reads events, ends them, and judges their results."""

from __future__ import annotations

from time import monotonic

from cloche.engine import network_refusals
from cloche.engine.input_waits import InputWaits
from cloche.engine.judge import STDOUT_TAIL, TAIL, Facts, judge, unread
from cloche.engine.link import NONSENSE, Lost
from cloche.errors import ClocheError, Gone
from cloche.io.tasks import off_loop
from cloche.model import events
from cloche.model.events import Event, Exit, Output, Started
from cloche.model.limits import Limits
from cloche.model.result import Error, Result
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.building import ProgramBuild
    from cloche.engine.sandbox import AsyncHostSandbox
    from cloche.model.order import Spent
    from cloche.model.result import Artifact, Diagnostic, Display
    from cloche.sandbox.checks import Data

_SIGKILL = 9
GRACE_S = 2.0  # time for an agent to end a program before the sandbox is ended instead
_STREAMS = {frames.STDOUT: "stdout", frames.STDERR: "stderr"}


class AsyncHostProcess:
    """A running program.  The task that calls `advance` also enforces its time limits."""

    def __init__(
        self,
        box: AsyncHostSandbox,
        request: dict[str, Any],
        limits: Limits,
        *,
        stop_at_output_limit: bool,
        ends_sandbox: bool = False,
        source: str | None = None,
        building: ProgramBuild | None = None,
    ) -> None:
        self._box, self._request, self._limits, self._source = box, request, limits, source
        self._building = building
        self._stop_at_output_limit, self._ends_sandbox = stop_at_output_limit, ends_sandbox
        self._operation = box.link.open()
        self._begin = monotonic()
        self._built: float | None = None  # when the program was ready to begin, if it had to be built
        self._ended: float | None = None  # when the program ended, if its checker still runs
        self._deadline = _later(self._begin, limits.build_timeout_s if self.is_building else limits.timeout_s)
        self._stopping: float | None = None  # the deadline for the end that was requested
        self._input: memoryview | None = None  # the unsent rest of the whole input
        self._waits = InputWaits()
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._tail = bytearray()
        self._timed_out = False
        self._end: tuple[dict[str, Any] | None, Exception | None] | None = None  # how it ended, until there is a result
        self._end_at = 0.0
        self._first: tuple[Event, ...] = ()  # events to report before all others
        if building is not None and building.under_way:
            self._first = (events.Building(building.step),)
        self.is_output_cut = False
        self.is_counted = True  # whether usage is wanted even after a success
        self.pid: int | None = None
        self.result: Result | None = None
        self.status: int | None = None  # after the end: exit code, or minus the signal; None: the sandbox ended too

    @property
    def is_building(self) -> bool:
        """Whether the program is still being built."""
        return self._building is not None and self._building.under_way

    @property
    def number(self) -> int:
        """The number of the operation, for requests to the agent about this program."""
        return self._operation.number

    async def begin(self) -> None:
        """Send the request to the agent."""
        try:
            frame = frames.encode_json(self._operation.number, frames.RUN, self._request)
        except ValueError:
            from cloche.engine import not_started

            self._forget()
            raise not_started.too_long() from None
        await self._box.catch_up()
        await self._box.begin(frame)

    async def advance(self) -> tuple[Event, ...]:
        """Wait for one frame, act on it, and return the resulting events."""
        if self._first:
            first, self._first = self._first, ()
            return first
        try:
            if self._end is not None and self.result is None:  # an earlier call was cancelled after the end
                return await self._conclude(*self._end)
            kind, payload = await self._box.link.receive(self._operation, self._stopping or self._deadline)
            return await self._take(kind, payload)
        except ClocheError:
            raise
        except TimeoutError:
            return await self._overdue()
        except (Lost, *NONSENSE) as problem:
            return await self._conclude(None, problem)

    async def finish(self, stdin: Data | None) -> Result:
        """Send all input and wait for the end; no other task reads events."""
        try:
            if stdin is not None:
                await self.feed(stdin)
            while self.result is None:
                await self.advance()
        except BaseException:  # interrupted: the result is not wanted, so the program must not continue
            await self.give_up()
            raise
        return self.result

    # --- input, and ending on request

    async def feed(self, data: Data) -> None:
        """Send the whole standard input, as fast as it is read, while events are being taken."""
        self._input = memoryview(data)
        await self._feed()

    async def send_input(self, data: memoryview) -> memoryview:
        """Send as much as one frame may carry; return the rest."""
        if self._operation.input_credit <= 0:
            return data
        part = bytes(data[: min(frames.CHUNK, self._operation.input_credit)])
        self._operation.input_credit -= len(part)
        self._waits.input_sent()
        await self._box.send(frames.encode(self._operation.number, frames.INPUT, part))
        return data[len(part) :]

    def has_room(self) -> bool:
        """Return whether input may be sent now."""
        return self._operation.input_credit > 0

    async def await_room(self) -> bool:
        """Wait until the program takes more input, without reading its output; return False if it has ended."""
        try:
            return await self._box.link.await_credit(self._operation) > 0
        except Lost as problem:
            await self._box.explain_loss(problem)
            raise

    async def close_stdin(self) -> None:
        """Close the standard input."""
        await self._send(frames.INPUT_END)

    async def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        await self._send(frames.RESIZE, dumps({"columns": columns, "rows": rows}).encode())

    async def signal(self, number: int) -> None:
        """Send a signal to the program."""
        await self._send(frames.SIGNAL, dumps({"signal": number}).encode())

    async def kill(self) -> None:
        """Kill the program and all processes that it has started."""
        await self._send(frames.CANCEL)

    async def give_up(self) -> None:
        """Kill the program without waiting; its result is not wanted any more."""
        if self.result is None:
            try:
                await self.kill()
            except ClocheError:
                pass  # the sandbox is gone, and the program with it
            self._forget()

    async def _send(self, kind: int, payload: bytes = b"") -> None:
        if self.result is None:
            await self._box.send(frames.encode(self._operation.number, kind, payload))

    async def _feed(self) -> None:
        try:
            while self._input and self._operation.input_credit > 0:
                self._input = await self.send_input(self._input)
            if self._input is not None and not self._input:
                self._input = None
                await self.close_stdin()
        except Gone:
            self._input = None  # the program's events report its end

    def _forget(self) -> None:
        self._box.link.close(self._operation)
        if self._source is not None:
            self._box.programs.sources.pop(self._source, None)

    # --- frames from the agent

    async def _take(self, kind: int, payload: bytes) -> tuple[Event, ...]:
        if kind in _STREAMS:
            return await self._keep(_STREAMS[kind], payload)
        if kind == frames.STARTED:
            self.pid = int(frames.decode_json(payload)["pid"])
            return (Started(self.pid),)
        if kind == frames.EXIT:
            return await self._conclude(frames.decode_json(payload), None)
        if kind == frames.FAIL:
            return self._not_started(frames.decode_json(payload))
        if kind == frames.CREDIT:
            await self._feed()
        elif kind == frames.EVENT:
            report = frames.decode_json(payload)
            if "waiting" in report:
                waiting = self._waits.take(report)
                return () if waiting is None else (waiting,)
            if self._building is not None:
                return self._staged(self._building, report)
        return ()

    def _staged(self, building: ProgramBuild, stage: dict[str, Any]) -> tuple[Event, ...]:
        """Note that a build step has ended, or the checker, or the program before its checker."""
        step = building.step
        if stage.get("ended"):
            self._ended = monotonic()
            self._deadline = self._ended + building.patience
            return ()
        building.take(stage)
        if step and building.step not in ("", step):
            return (events.Building(building.step),)
        if step and not building.step:
            self._built = monotonic()
            self._deadline = _later(self._built, self._limits.timeout_s)
        return ()

    async def _keep(self, stream: str, data: bytes) -> tuple[Event, ...]:
        room = self._limits.output_bytes - sum(map(len, self._kept.values()))
        if len(data) > room:
            data_kept = data[: max(room, 0)]
            if self._stop_at_output_limit and not self.is_output_cut:
                await self._stop()
            self.is_output_cut = True
        else:
            data_kept = data
        self._kept[stream] += data_kept
        if stream == "stderr" or "terminal" in self._request:
            self._tail += data.replace(b"\r\n", b"\n") if "terminal" in self._request else data
            if len(self._tail) > 2 * TAIL:
                del self._tail[:-TAIL]
        shown = data_kept if self._stop_at_output_limit else data
        return (Output(stream, shown),) if shown else ()

    # --- the end

    async def _stop(self) -> None:
        """End the program: through the agent if it still answers, otherwise through the wall."""
        if self._stopping is None:
            self._stopping = monotonic() + GRACE_S
            if not self._ends_sandbox:
                await self.kill()
                return
        await self._box.end()

    async def _overdue(self) -> tuple[Event, ...]:
        if self._box.paused:
            later = monotonic() + GRACE_S
            self._deadline, self._stopping = later, None if self._stopping is None else later
            return ()
        if self._stopping is None and self._ended is not None and self._building is not None:
            self._building.skip_check()  # the program has ended well in time
        elif self._stopping is None:
            self._timed_out = True
        await self._stop()
        if self._ends_sandbox or monotonic() >= (self._stopping or 0):
            return await self._conclude(None, None)
        return ()

    async def _conclude(self, end: dict[str, Any] | None, problem: Exception | None) -> tuple[Event, ...]:
        """Gather the facts after the program or its sandbox has ended, judge them, and make the result.

        If this is cancelled, the next task that wants an event does it again: so all that waits comes before changes.
        """
        if self._end is None:
            self._end_at = monotonic()
        self._end = (end, problem)
        now = self._ended or self._end_at
        if self._built is not None and end is not None:
            # The frames for the build and the end may have arrived together: the agent knows the running time better.
            self._built = max(self._begin, min(self._built, now - float(end.get("ran", 0.0))))
        code = int(end["code"]) if end is not None else 0 if self._ended is not None else -_SIGKILL
        self.status = code if end is not None else None
        shown, left = await self._collect(end) if end is not None and not self.is_building else ((), ())
        spent = await self._ask_wall(is_suspicious=end is None or code != 0)
        kept_out, kept_err = self._kept["stdout"], self._kept["stderr"]
        if self._building is not None and self.is_building:
            kept_err = bytearray(self._building.output.encode(errors="replace")[: self._limits.output_bytes])
        out, stdout, err, stderr = await off_loop(
            len(kept_out) + len(kept_err), lambda: (*_in_both_forms(kept_out), *_in_both_forms(kept_err))
        )
        facts = self._facts(code, end or {}, spent, lost=problem is not None)
        if spent is not None:
            self._box.see(spent)
        cpu, peak = self._used(end or {}, spent)
        error = self._judge(facts)
        attempts = await self._box.attempts_since(self._begin)
        if error is not None and (attempts or self._box.has_network):
            error = network_refusals.explained(error, attempts, facts.stderr_tail)
        self.result = Result(
            stdout=stdout,
            stderr=stderr,
            exit_code=124 if error is not None and error.kind == "timeout" else (128 - code if code < 0 else code),
            duration=0.0 if self.is_building else now - (self._built or self._begin),
            cpu_time=cpu,
            memory_peak=peak,
            error=error,
            truncated=self.is_output_cut,
            stdout_bytes=out,
            stderr_bytes=err,
            wall=self._box.wall,
            results=shown,
            artifacts=left,
            diagnostics=self._diagnostics(error),
            build_time=self._time_to_build(now),
            network=attempts,
        )
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}  # the result has it all
        self._forget()
        if self.is_building and err:
            return Output("stderr", err), Exit(self.result)  # the compiler's messages, for readers of the events
        return (Exit(self.result),)

    async def _ask_wall(self, is_suspicious: bool) -> Spent | None:
        """Read the wall's counts, where they matter.

        They matter after a success too: a process refused or killed now must not be blamed on the next program.
        """
        if is_suspicious or (self.is_counted and (self._ends_sandbox or self._box.is_watched)):
            return await self._box.spent(final=self._ends_sandbox)
        return None

    def _facts(self, code: int, end: dict[str, Any], spent: Spent | None, lost: bool) -> Facts:
        """Combine the facts about the end of the program, from inside and from outside."""
        disk = end.get("disk") or {}
        tail = self._tail.decode(errors="replace")
        if self._building is not None and self.is_building:
            tail = self._building.output
        return Facts(
            exit_code=code,
            stderr_tail=tail,
            stdout_tail=self._kept["stdout"][-STDOUT_TAIL:].decode(errors="replace") if code else "",
            timed_out=self._timed_out,
            output_cut=self.is_output_cut and self._stop_at_output_limit,
            lost=lost,
            reason=spent.reason if spent is not None else "",
            oom_kills=spent.oom_kills - self._box.oom_kills_seen if spent is not None else 0,
            processes_refused=spent.processes_refused - self._box.refusals_seen if spent is not None else 0,
            disk_free=disk.get("free"),
            inodes_free=disk.get("inodes_free"),
            refused=tuple(str(name)[:40] for name in end.get("refused") or ())[:16],
            is_python="python" in self._request or "python" in str(self._request.get("argv", "")),
        )

    def _used(self, end: dict[str, Any], spent: Spent | None) -> tuple[float, int]:
        """Return CPU time and peak memory: measured by the wall, if the sandbox ran only this program."""
        cpu, peak = end.get("cpu", 0.0), end.get("peak", 0)
        if self._ends_sandbox and spent is not None:
            cpu = spent.cpu_time if spent.cpu_time is not None else cpu
            peak = _without_deleted_files(spent, end) if spent.memory_peak is not None else peak
        elif self._building is not None:
            return float(cpu) + self._building.cpu, max(int(peak), self._building.peak)
        return float(cpu), int(peak)

    def _judge(self, facts: Facts) -> Error | None:
        if self._building is None:
            return judge(facts, self._limits)
        if self._building.under_way:
            return self._building.judge(facts, self._limits)
        return judge(self._building.explain(facts), self._limits)

    def _diagnostics(self, error: Error | None) -> tuple[Diagnostic, ...]:
        if self._building is not None:
            return tuple(self._building.diagnostics)
        return unread(error, self._source) if error is not None and error.kind == "syntax" else ()

    def _time_to_build(self, now: float) -> float | None:
        if self._building is None or not self._building.plan.before:
            return None
        return (self._built or now) - self._begin

    async def _collect(self, end: dict[str, Any]) -> tuple[tuple[Display, ...], tuple[Artifact, ...]]:
        """Read the displays that the program has left in files, and list the files in the output folder.

        Where the sandbox ends with the program, the pictures among these files are displays, too: nobody could read
        them later.
        """
        shown: tuple[Display, ...] = ()
        left: tuple[Artifact, ...] = ()
        if self._building is not None and self._building.plan.display_folder:
            from cloche.engine.program_displays import displays

            shown = await displays(self._box, self._building.plan.display_folder, clear=not self._ends_sandbox)
        if end.get("artifacts"):
            from cloche.engine.artifacts import artifacts, pictures

            left = artifacts(end["artifacts"])
            if self._ends_sandbox:
                shown += await pictures(self._box, left)
        return shown, left

    def _lacks_program(self) -> bool:
        """Return whether the program was not found, as opposed to its working directory."""
        return not self._request.get("cwd") or (self._building is not None and not self._building.plan.run)

    def _not_started(self, failure: dict[str, Any]) -> tuple[Event, ...]:
        """Make the result of a program that was never started."""
        from cloche.engine import not_started  # imported late: most programs do start

        self._forget()
        number, language = failure.get("errno"), self._request.get("language")
        if number == not_started.ENOENT and language and self._lacks_program():
            lacks = self._building.plan.missing if self._building is not None else ""
            self.result = not_started.unavailable(str(language), self._box.wall, lacks)
        elif number in not_started.NO_ROOM:
            self.result = not_started.no_room(number, self._limits, self._box.wall)
        else:
            raise not_started.refusal(failure)
        return (Exit(self.result),)


def _later(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds


def _in_both_forms(kept: bytearray) -> tuple[bytes, str]:
    data = bytes(kept)
    return data, data.decode(errors="replace")


def _without_deleted_files(spent: Spent, end: dict[str, Any]) -> int:
    """Return the peak memory of a sandbox that has run a single program.

    The wall's own figure may include files that were deleted since.  No process had more memory than the largest that
    the program has waited for; so all together had no more than their number times that.  The agent reports these, and
    may lie, but only between two figures of the wall.
    """
    peak, largest = spent.memory_peak or 0, _count(end.get("peak"))
    numbers = [number for number in (spent.processes_peak, 2 + _count(end.get("started"))) if number]  # with the agent
    if not largest or "started" not in end:
        return peak
    return min(peak, max(spent.memory_least or 0, largest * max(1, min(numbers) - 1)))


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
