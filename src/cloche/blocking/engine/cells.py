# Generated from src/cloche/engine/cells.py by scripts/blocking.py: edit that file instead.
"""A running cell on this host: sent to a context's kernel, followed, ended in time, and judged."""

from __future__ import annotations

from os import cpu_count
from time import monotonic

from cloche.blocking.engine.artifacts import artifacts
from cloche.blocking.engine.link import NONSENSE, Lost
from cloche.blocking.engine.processes import GRACE_S
from cloche.blocking.io.tasks import Tasks, off_loop
from cloche.blocking.sandbox.tools import calling, refusal
from cloche.engine import network_refusals
from cloche.engine.cell_displays import CellDisplays, read_message
from cloche.engine.cell_output import CellOutput
from cloche.engine.input_waits import InputWaits
from cloche.engine.judge import STDOUT_TAIL
from cloche.engine.judge_cell import CellFacts, judge_cell
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun
from cloche.model.events import CellEvent, End, Failed, Output, Started
from cloche.model.result import Error, Result, ToolCall
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.blocking.sandbox.tools import Tools
    from cloche.model.limits import Limits
    from cloche.sandbox.checks import Data

INTERRUPT_S = 2.0  # time for code to yield to an interrupt before its kernel is ended
MAX_CALLS = 1000  # calls of tools per cell
MAX_CALLING = 8 << 20  # bytes of the calls that wait for their answers
MAX_RECORDED = 32 << 20  # bytes of calls and answers in the result
_NEGLECT_S = 0.5
_CPUS = cpu_count() or 1  # read once: it takes 12 microseconds
_MAX_CLAIM = 1 << 50  # of a number that a kernel sends
_STREAMS = {frames.STDOUT: "stdout", frames.STDERR: "stderr"}
_INTERRUPT = b'{"grace":%g}' % INTERRUPT_S  # the agent ends the kernel if the code does not yield


class HostCell:
    """One cell.  The task that takes its events also enforces its time limit and answers its calls of tools."""

    def __init__(self, box: HostSandbox, request: dict[str, Any], limits: Limits, tools: Tools, keep: int) -> None:
        self._box, self._request, self._limits, self._tools = box, request, limits, tools
        self._operation = box.link.open()
        self._begin = monotonic()
        self._deadline = None if limits.timeout_s is None else self._begin + limits.timeout_s
        self._stopping = ""  # "", "interrupted", "killed", "ended": the last step taken to stop the cell
        self._why = ""  # "timeout", "output", "interrupt": the reason for stopping it
        self._input: memoryview | None = None
        self._waits = InputWaits()
        self._output, self._displays = CellOutput(limits.output_bytes, keep), CellDisplays()
        self._calls: list[ToolCall] = []
        self._called = self._calling = self._recorded = 0  # calls so far; bytes of open calls, and of recorded ones
        self._tasks = Tasks()
        self.lost_before = False  # the kernel has ended since the last cell whose result was reported
        self._attended = False  # whether a task waits for the next event
        self.abandoned = False  # whether no task will wait for events any more
        self._end: tuple[dict[str, Any] | None, Exception | None] | None = None  # how it ended, until there is a result
        self._duration = 0.0
        self.over = False  # no code of the cell runs, or will run
        self.result: Result | None = None

    def begin(self) -> None:
        """Send the request to the agent."""
        try:
            frame = frames.encode_json(self._operation.number, frames.CELL, self._request)
        except ValueError:
            self._close()
            raise InvalidRun(
                "The code is too long for a cell.",
                "Write it to a file with box.files.write, and import that.",
            ) from None
        try:
            self._box.begin(frame)
        except ClocheError:
            self._close()
            raise
        except BaseException:
            self.give_up()
            raise

    def finish(self, stdin: Data | None) -> Result:
        """Send the input and wait for the end."""
        try:
            if stdin is not None:
                self.feed(stdin)
            while self.result is None:
                self.next_event()
        except BaseException:
            self.give_up()
            raise
        return self.result

    def feed(self, data: Data) -> None:
        """Send the whole standard input, as fast as it is read, while events are being taken."""
        self._input = memoryview(data)
        self._feed()

    def write(self, data: Data) -> None:
        """Write to the standard input; wait while it is not read, and drop input that can never be read."""
        rest = memoryview(data)
        try:
            while rest and not self.over and self._box.link.await_credit(self._operation) > 0:
                part, rest = rest[: self._room()], rest[self._room() :]
                self._send_input(part)
        except (Gone, Lost):
            pass  # the cell's events report the end of the code

    def close_stdin(self) -> None:
        """Close the standard input."""
        if not self.over:
            try:
                self._send(frames.INPUT_END)
            except Gone:
                pass

    def interrupt(self, why: str = "interrupt") -> None:
        """Stop the cell; variables stay if the kernel can be interrupted."""
        if self.result is None and not self._stopping:
            self._stopping, self._why = "interrupted", why
            self._deadline = monotonic() + INTERRUPT_S
            self._send(frames.SIGNAL, _INTERRUPT)

    def give_up(self) -> None:
        """Stop the cell without waiting; its result is not wanted any more."""
        self.abandon()
        self._tasks.cancel()

    def abandon(self) -> None:
        """Stop the cell from code that cannot await.  The next task that wants the context takes its last events."""
        self.abandoned = True
        if not self.over and not self._stopping:
            self._stopping, self._why = "interrupted", "interrupt"
            self._deadline = monotonic() + INTERRUPT_S
            self._box.link.post(frames.encode(self._operation.number, frames.SIGNAL, _INTERRUPT))

    def next_event(self) -> CellEvent | None:
        """Wait for the next event; None after the end."""
        self._attended = True
        try:
            return self._next_event()
        finally:
            self._attended = False

    def is_neglected(self) -> bool:
        """Return whether the time is up and no task is there to end the cell."""
        late = self._deadline is not None and monotonic() > self._deadline + _NEGLECT_S
        return not self.over and (self.abandoned or (late and not self._attended))

    def _next_event(self) -> CellEvent | None:
        if self._displays.message is not None and (shown := self._show()) is not None:
            return shown  # an earlier call was cancelled while the message was read
        while self.result is None:
            try:
                if self._end is not None:  # an earlier call was cancelled after the end
                    return self._conclude(*self._end)
                kind, payload = self._box.link.receive(self._operation, self._deadline)
                event = self._take(kind, payload)
            except ClocheError:
                raise
            except TimeoutError:
                event = self._overdue()
            except (Lost, *NONSENSE) as problem:
                event = self._conclude(None, problem)
            if event is not None:
                return event
        return None

    def _take(self, kind: int, payload: bytes) -> CellEvent | None:
        if kind in _STREAMS:
            return self._print(_STREAMS[kind], payload)
        if kind == frames.DATA:
            self._displays.add(payload)
            return self._show()
        if kind == frames.EVENT:
            return self._take_report(payload)
        if kind == frames.CREDIT:
            self._feed()
        elif kind == frames.STARTED:
            start = frames.decode_json(payload)
            self.lost_before = self.lost_before or bool(start.get("lost"))
            return Started(int(start["pid"]))
        elif kind == frames.EXIT:
            return self._conclude(frames.decode_json(payload), None)
        elif kind == frames.FAIL:
            return self._refused(frames.decode_json(payload))
        return None

    # --- frames from the agent

    def _print(self, stream: str, data: bytes) -> CellEvent | None:
        allowed = self._output.allow(data)
        if len(allowed) < len(data):
            self.interrupt("output")
        self._output.keep(stream, allowed)
        return Output(stream, allowed) if allowed else None

    def _show(self) -> CellEvent | None:
        """Read the kernel's message if it is complete.  It stays where it is if this is cancelled."""
        message = self._displays.message
        if message is None:
            return None
        read = off_loop(len(message), lambda: read_message(message))
        return self._displays.take(read)

    def _take_report(self, payload: bytes) -> CellEvent | None:
        try:
            report = frames.decode_json(payload)
        except frames.Garbled:
            return None
        if "waiting" in report:
            return self._waits.take(report) if self._request.get("input") == "interactive" else None
        self._call(report, payload)
        return None

    def _call(self, request: dict[str, Any], payload: bytes) -> None:
        """Answer a call of one of the owner's tools."""
        self._called += 1
        if self._called > MAX_CALLS:
            self._reply(refusal(request.get("call"), "ToolError", f"a cell makes at most {MAX_CALLS} calls"))
        elif self._calling + len(payload) > MAX_CALLING or not self._tasks.has_room():
            self._reply(refusal(request.get("call"), "ToolError", "too many calls at once"))
        else:
            self._calling += len(payload)
            self._tasks.start(self._answer, request, len(payload))

    def _answer(self, request: dict[str, Any], size: int) -> None:
        before = calling.set((*calling.get(), self))
        try:
            call, answer = self._tools.call(request)
        finally:
            calling.reset(before)
        self._calling -= size
        if call is not None:
            self._recorded += size + len(answer)
            if self._recorded > MAX_RECORDED:
                call = call.replace(args=[], kwargs={}, value=None)
            self._calls.append(call)
        if self.result is None and not self._is_late():
            self._reply(answer)

    def _is_late(self) -> bool:
        """Whether the time is up, which nobody could see while a tool blocked this thread."""
        return self._deadline is not None and monotonic() >= self._deadline and not self._box.paused

    def _reply(self, answer: bytes) -> None:
        try:
            self._send(frames.ANSWER, answer)
        except Gone:
            pass  # the code no longer waits for the answer

    # --- the end

    def _close(self) -> None:
        self.over = True
        self._box.link.close(self._operation)

    def _send(self, kind: int, payload: bytes | memoryview = b"") -> None:
        self._box.send(frames.encode(self._operation.number, kind, payload))

    def _room(self) -> int:
        """Return how many bytes of input one frame may carry now."""
        return min(frames.CHUNK, self._operation.input_credit)

    def _send_input(self, part: memoryview) -> None:
        self._operation.input_credit -= len(part)
        self._waits.input_sent()
        self._send(frames.INPUT, part)

    def _feed(self) -> None:
        try:
            while self._input and self._operation.input_credit > 0:
                part, self._input = self._input[: self._room()], self._input[self._room() :]
                self._send_input(part)
            if self._input is not None and not self._input:
                self._input = None
                self._send(frames.INPUT_END)
        except Gone:
            self._input = None  # the cell's events report the end of the code

    def _overdue(self) -> CellEvent | None:
        """Act when the time is up: first interrupt the cell, then end its kernel, then end the sandbox."""
        if self._box.paused:
            self._deadline = monotonic() + GRACE_S
        elif not self._stopping:
            self.interrupt("timeout")
        elif self._stopping == "interrupted":
            self._stopping = "killed"
            self._deadline = monotonic() + GRACE_S
            self._send(frames.CANCEL)
        else:
            self._stopping = "ended"
            self._box.end()
            return self._conclude(None, None)
        return None

    def _conclude(self, end: dict[str, Any] | None, problem: Exception | None) -> CellEvent:
        """Gather and judge the facts after the cell, its kernel or its sandbox has ended.

        If this is cancelled, the next task that wants an event does it again: so all that waits comes before changes.
        """
        if self._end is None:
            self._duration = monotonic() - self._begin
        self._end = (end, problem)
        self._tasks.cancel()
        kernel = (end or {}).get("kernel")
        kernel = kernel if isinstance(kernel, dict) else {}
        died = end is None or bool(end.get("died"))
        spent = self._box.spent(final=end is None) if died else None
        out, stdout, err, stderr = off_loop(self._output.size, self._output.in_both_forms)
        disk, why = (end or {}).get("disk") or {}, str((end or {}).get("why") or "")
        facts = CellFacts(
            language=str(self._request.get("language")),
            status=str(kernel.get("status", "")),
            code=int(end["code"] if end is not None and died else _claimed(kernel, "code", 255)),
            died=died,
            lost=problem is not None,
            why="timeout" if why == "overdue" else self._why or why,
            error=self._displays.error,
            reason="closed" if self._box.closed else spent.reason if spent is not None else "",
            oom_kills=spent.oom_kills - self._box.oom_kills_seen if spent is not None else 0,
            stderr_tail=self._output.tail("stderr", 4096),
            stdout_tail=self._output.tail("stdout", STDOUT_TAIL),
            disk_free=disk.get("free"),
            inodes_free=disk.get("inodes_free"),
            refused=tuple(str(name)[:40] for name in (end or {}).get("refused") or ())[:16],
        )
        if spent is not None:
            self._box.see(spent)
        else:
            self._box.see_later()  # asking the wall here would make every turn of a session slower
        attempts = self._box.attempts_since(self._begin)
        error = judge_cell(facts, self._limits)
        if error is not None and (attempts or self._box.has_network):
            error = network_refusals.explained(error, attempts, facts.stderr_tail)
        self.result = Result(
            stdout=stdout,
            stderr=stderr,
            exit_code=facts.exit_code(error),
            duration=self._duration,
            # Not more than the duration allows, but more than this cell's: it may have waited for earlier processes.
            cpu_time=_claimed(kernel, "cpu", (monotonic() - self._box.began) * _CPUS),
            memory_peak=int(_claimed(kernel, "peak", _MAX_CLAIM)),
            error=error,
            truncated=self._output.cut or self._displays.cut,
            stdout_bytes=out,
            stderr_bytes=err,
            wall=self._box.wall,
            results=tuple(self._displays.displays),
            logs=self._output.logs(),
            artifacts=artifacts((end or {}).get("artifacts")),
            execution_count=int(_claimed(kernel, "count", _MAX_CLAIM)) or None,
            tool_calls=tuple(self._calls),
            restarted=died or self.lost_before,
            network=attempts,
        )
        self._close()
        return End(self.result) if error is None else Failed(error)

    def _refused(self, failure: dict[str, Any]) -> CellEvent:
        """Make the result of a cell that the agent could not begin."""
        number, message = failure.get("errno"), str(failure.get("message", ""))[:1000]
        self._close()
        if number == 38:
            return self._fail(
                "unavailable",
                f"{self._request.get('language')} is not available in this sandbox: {message}.",
                f"{_remedy(self._request.get('language'))} `cloche languages` lists what there is.",
            )
        if number == 11:
            return self._fail(
                "processes",
                f"The code could not be run: there are {self._limits.processes} processes and threads already.",
                "End some of them (box.restart() ends those of a session), or allow more with processes=.",
            )
        if number == 2:
            raise FileMissing(f"The code could not be run: {message}.")
        raise FileProblem(f"The code could not be run: {message}.", number=number if isinstance(number, int) else 0)

    def _fail(self, kind: str, message: str, hint: str) -> CellEvent:
        error = Error(kind, message, hint)
        self.result = Result("", "", 127, monotonic() - self._begin, 0.0, 0, error, wall=self._box.wall)
        return Failed(error)


def _claimed(kernel: dict[str, Any], name: str, highest: float) -> float:
    """Return a number that the kernel sent, at most this large: the cell may have sent it itself."""
    value: Any = kernel.get(name)
    return float(min(max(value, 0), highest)) if type(value) in (int, float) and value == value else 0.0


def _remedy(language: object) -> str:
    """Return how to install a missing language."""
    from cloche import languages
    from cloche.languages.availability import remedy

    return remedy(languages.find(language)) if isinstance(language, str) else ""
