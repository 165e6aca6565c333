"""Programs in a sandbox: started, fed, listened to, ended, and judged."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from _collections_abc import Callable, Mapping, Sequence
from time import monotonic

from cloche.engine.judge import TAIL, Facts, judge, unread
from cloche.engine.link import NONSENSE, Lost
from cloche.errors import ClocheError, Gone
from cloche.io.tasks import AsyncCondition
from cloche.model import events
from cloche.model.events import Event, Exit, Output, Started
from cloche.model.limits import Limits
from cloche.model.result import Error, Result
from cloche.sandbox.checks import checked_command, checked_cwd, checked_data, checked_env, checked_size, signal_number
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.box import AsyncBox
    from cloche.engine.building import Building
    from cloche.model.result import Diagnostic, Display
    from cloche.sandbox.checks import Data

_SIGKILL = 9
GRACE_S = 2.0  # for an agent to end a program before the sandbox is ended instead
_STREAMS = {frames.STDOUT: "stdout", frames.STDERR: "stderr"}
_PIECE = 16 << 10  # bytes of output that are kept as one event, while nobody listens


class AsyncCommands:
    """`box.commands`: any program that is in the sandbox."""

    def __init__(self, box: AsyncBox) -> None:
        self._box = box

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a command (a shell line, or a list of arguments) to its end."""
        limits = self._box.limits_with(timeout)
        request = {**command_request(command, cwd, env), "input": stdin is not None}
        data = None if stdin is None else checked_data("stdin", stdin)
        process = await self._box.launch(request, limits, stop_at_output_limit=True)
        return await process.finish(data)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        pty: bool = False,
        size: tuple[int, int] = (80, 24),
        stdin: bool = True,
        timeout: float | None = None,
        stop_at_output_limit: bool = False,
        keep: int | None = None,
    ) -> AsyncProcess:
        """Start a command and return at once; without `timeout` it runs as long as the sandbox does.

        Its result has the beginning of its output, `keep` bytes of it if that is less than the output limit.
        """
        request = {**command_request(command, cwd, env), "input": stdin, "awaited": True}
        if pty:
            request["terminal"] = _terminal(size)
        limits = self._box.limits_with(timeout, unlimited=True)
        if keep is not None:
            limits = limits.replace(output_bytes=min(limits.output_bytes, keep))
        process = await self._box.launch(request, limits, stop_at_output_limit=stop_at_output_limit)
        try:
            await process.started()
        except ClocheError:
            raise
        except BaseException:  # called off: it may run already, and nobody would know of it
            await process._give_up()
            raise
        return process


def command_request(command: str | Sequence[str], cwd: str | None, env: Mapping[str, str] | None) -> dict[str, Any]:
    """What the agent is asked for, checked."""
    return {"argv": checked_command(command), "cwd": checked_cwd(cwd), "env": checked_env(env)}


def _terminal(size: tuple[Any, ...]) -> dict[str, int]:
    columns, rows = checked_size(size)
    return {"columns": columns, "rows": rows}


class AsyncProcess:
    """A program under way in a sandbox.

    Iterate over it for its events; `wait` for its result.  What it prints is kept up to the output limit, so that both
    can be had.
    """

    def __init__(
        self,
        box: AsyncBox,
        request: dict[str, Any],
        limits: Limits,
        *,
        stop_at_output_limit: bool,
        ends_sandbox: bool,
        source: str | None = None,
        building: Building | None = None,
    ) -> None:
        self._box, self._request, self._limits, self._source = box, request, limits, source
        self._building = building
        self._stop_at_output_limit, self._ends_sandbox = stop_at_output_limit, ends_sandbox
        self._operation = box.link.open()
        self._begin = monotonic()
        self._built: float | None = None  # when it was ready to begin, if there was something to do before
        self._ended: float | None = None  # when it ended, if something beside it goes on
        builds = building is not None and building.under_way
        self._deadline = _later(self._begin, limits.build_timeout_s if builds else limits.timeout_s)
        self._stopping: float | None = None  # when we lose patience, once it has been told to end
        self._pid: int | None = None
        self._input: memoryview | None = None  # what is still to be sent of the input that was given as a whole
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._tail = bytearray()
        self._timed_out = self._cut = False
        self._turn = AsyncCondition()
        self._taking = False  # somebody waits for the next frame, on behalf of all
        self._missed: deque[Event] = deque()  # what happened while somebody waited for something else
        if building is not None and building.under_way:
            self._missed.append(events.Building(building.step))
        self.is_followed = False  # somebody asks for its events all the while: a writer need not take them
        self.is_counted = True  # somebody wants to know what it used, also when all went well
        self.result: Result | None = None
        self.status: int | None = None  # once it has ended: its exit code, or minus its signal; None: with its sandbox

    @property
    def is_building(self) -> bool:
        """Is it being built, and does not run yet?"""
        return self._building is not None and self._building.under_way

    @property
    def has_begun(self) -> bool:
        """Does it run, or has it?"""
        return self._pid is not None

    @property
    def number(self) -> int:
        """The number of its operation, for who speaks with the agent about it."""
        return self._operation.number

    @property
    def pid(self) -> int:
        """Its process id inside the sandbox."""
        if self._pid is None:
            raise Gone("The process has not been started.")
        return self._pid

    async def begin(self) -> None:
        """Ask for it."""
        try:
            frame = frames.encode_json(self._operation.number, frames.RUN, self._request)
        except ValueError:
            from cloche.engine import not_started

            self._forget()
            raise not_started.too_long() from None
        await self._box.catch_up()
        await self._box.tell(frame)

    async def started(self) -> None:
        """Wait until it runs, or is being built; what it prints meanwhile is kept."""
        async with self._turn:
            while self._pid is None and self.result is None and not self.is_building:
                await self._step(listening=False)

    async def next_event(self) -> Event | None:
        """The next thing that happens; None after the end."""
        async with self._turn:
            while not self._missed and self.result is None:
                await self._step(listening=True)
            return self._missed.popleft() if self._missed else None

    async def wait(self) -> Result:
        """Wait for its end; its events are kept for whoever iterates over them, up to the output limit."""
        async with self._turn:
            while self.result is None:
                await self._step(listening=False)
        return self.result

    async def finish(self, stdin: Data | None, tell: Callable[[Event], None] | None = None) -> Result:
        """Give it all its input, and wait for its end; nobody else listens, `tell` hears what happens."""
        try:
            if stdin is not None:
                await self.feed(stdin)
            while (event := await self.next_event()) is not None:
                if tell is not None:
                    tell(event)
        except BaseException:  # interrupted: nobody will ask for it any more, so it shall not go on
            await self._give_up()
            raise
        assert self.result is not None
        return self.result

    async def feed(self, data: Data) -> None:
        """Have all of its standard input sent, as fast as it takes it, while its events are asked for."""
        self._input = memoryview(data)
        await self._feed()

    async def write(self, data: str | Data) -> None:
        """Write to its standard input; waits when it does not read, and throws away what it will never read."""
        rest = memoryview(checked_data("input", data))
        while rest and self.result is None:
            if self._operation.input_credit > 0:
                rest = await self._send_input(rest)
            elif self.is_followed:
                if await self._await_credit() <= 0:
                    return  # it has ended
            else:
                async with self._turn:
                    if self.result is None and self._operation.input_credit <= 0:
                        await self._step(listening=False)

    async def _await_credit(self) -> int:
        """Wait until it takes more input, or has ended; without taking its output from whoever follows it."""
        try:
            return await self._box.link.await_credit(self._operation)
        except Lost as problem:
            await self._box.explain_loss(problem)
            raise

    async def close_stdin(self) -> None:
        """Nothing more comes on its standard input."""
        await self._send(frames.INPUT_END)

    async def resize(self, columns: int | tuple[int, int], rows: int | None = None) -> None:
        """Change the size of its terminal: `resize(80, 24)`, or `resize((80, 24))` as for `size=`."""
        size = columns if isinstance(columns, tuple) and rows is None else (columns, rows)
        await self._send(frames.RESIZE, dumps(_terminal(size)).encode())

    async def signal(self, number: int | str) -> None:
        """Send it a signal, by number or by name."""
        await self._send(frames.SIGNAL, dumps({"signal": signal_number(number)}).encode())

    async def kill(self) -> None:
        """Kill it, with everything it has started; `wait` still tells how it ended."""
        await self._send(frames.CANCEL)

    def __aiter__(self) -> AsyncProcess:
        return self

    async def __anext__(self) -> Event:
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def _send(self, kind: int, payload: bytes = b"") -> None:
        if self.result is None:
            await self._box.tell(frames.encode(self._operation.number, kind, payload))

    async def _send_input(self, data: memoryview) -> memoryview:
        """Send as much as is allowed in one frame; the rest."""
        part = bytes(data[: min(frames.CHUNK, self._operation.input_credit)])
        self._operation.input_credit -= len(part)
        await self._box.tell(frames.encode(self._operation.number, frames.INPUT, part))
        return data[len(part) :]

    async def _feed(self) -> None:
        try:
            while self._input and self._operation.input_credit > 0:
                self._input = await self._send_input(self._input)
            if self._input is not None and not self._input:
                self._input = None
                await self.close_stdin()
        except Gone:
            self._input = None  # what became of the program is told by its events

    async def _step(self, listening: bool) -> None:
        """With the turn: take one frame, or wait until somebody has; what it says is kept for whoever listens.

        When nobody does, output past the limit is dropped.
        """
        if self._taking:
            await self._turn.wait_for_change(None)
            return
        self._taking = True
        self._turn.release()
        try:
            event = await self._advance()
        finally:
            await self._turn.acquire()
            self._taking = False
            self._turn.notify_all()
        if event is not None and (listening or not self._cut or not isinstance(event, Output)):
            self._note(event)

    def _note(self, event: Event) -> None:
        last = self._missed[-1] if self._missed else None
        small = isinstance(last, Output) and len(last.data) < _PIECE
        if small and isinstance(event, Output) and isinstance(last, Output) and last.kind == event.kind:
            self._missed[-1] = Output(event.kind, last.data + event.data)  # one by one they would cost too much
        else:
            self._missed.append(event)

    def _forget(self) -> None:
        self._box.link.close(self._operation)
        if self._source is not None:
            self._box.sources.pop(self._source, None)

    async def _give_up(self) -> None:
        """Nobody will ask for it any more: it shall not go on."""
        if self.result is None:
            try:
                await self.kill()
            except ClocheError:
                pass  # the sandbox is gone, and the program with it
            self._forget()

    async def _advance(self) -> Event | None:
        """Take one frame and act on it."""
        try:
            kind, payload = await self._box.link.receive(self._operation, self._stopping or self._deadline)
            return await self._take(kind, payload)
        except ClocheError:
            raise
        except TimeoutError:
            return await self._overdue()
        except (Lost, *NONSENSE) as problem:
            return await self._conclude(None, problem)

    async def _take(self, kind: int, payload: bytes) -> Event | None:
        if kind in _STREAMS:
            return await self._keep(_STREAMS[kind], payload)
        if kind == frames.STARTED:
            self._pid = int(frames.decode_json(payload)["pid"])
            return Started(self._pid)
        if kind == frames.EXIT:
            return await self._conclude(frames.decode_json(payload), None)
        if kind == frames.FAIL:
            return self._not_started(frames.decode_json(payload))
        if kind == frames.CREDIT:
            await self._feed()
        elif kind == frames.EVENT and self._building is not None:
            return self._staged(self._building, frames.decode_json(payload))
        return None

    def _staged(self, building: Building, told: dict[str, Any]) -> Event | None:
        """A step before the program is over, or the one beside it; or the program, before that one."""
        step = building.step
        if told.get("ended"):
            self._ended = monotonic()
            self._deadline = self._ended + building.patience
            return None
        building.take(told)
        if step and building.step not in ("", step):
            return events.Building(building.step)
        if step and not building.step:
            self._built = monotonic()
            self._deadline = _later(self._built, self._limits.timeout_s)
        return None

    async def _keep(self, stream: str, data: bytes) -> Event | None:
        room = self._limits.output_bytes - sum(map(len, self._kept.values()))
        if len(data) > room:
            data_kept = data[: max(room, 0)]
            if self._stop_at_output_limit and not self._cut:
                await self._stop()
            self._cut = True
        else:
            data_kept = data
        self._kept[stream] += data_kept
        if stream == "stderr":
            self._tail += data
            if len(self._tail) > 2 * TAIL:
                del self._tail[:-TAIL]
        shown = data_kept if self._stop_at_output_limit else data
        return Output(stream, shown) if shown else None

    async def _stop(self) -> None:
        """Have it ended, by the agent if it still can, else by the wall."""
        if self._stopping is None:
            self._stopping = monotonic() + GRACE_S
            if not self._ends_sandbox:
                await self.kill()
                return
        await self._box.end()

    async def _overdue(self) -> Event | None:
        if self._box.paused:
            later = monotonic() + GRACE_S
            self._deadline, self._stopping = later, None if self._stopping is None else later
            return None
        if self._stopping is None and self._ended is not None and self._building is not None:
            self._building.skip_check()  # the program has ended well in time
        elif self._stopping is None:
            self._timed_out = True
        await self._stop()
        if self._ends_sandbox or monotonic() >= (self._stopping or 0):
            return await self._conclude(None, None)
        return None

    async def _conclude(self, end: dict[str, Any] | None, problem: Exception | None) -> Event:
        """The program has ended, or its sandbox has: gather what is known and judge it."""
        building, now = self._building, self._ended or monotonic()
        if self._built is not None and end is not None:
            # That it was built and that it ended may have come at once: how long it ran, the agent knows better.
            self._built = max(self._begin, min(self._built, now - float(end.get("ran", 0.0))))
        failed_to_build = building is not None and building.under_way
        code = int(end["code"]) if end is not None else 0 if self._ended is not None else -_SIGKILL
        self.status = code if end is not None else None
        suspicious = end is None or code != 0
        shown = await self._collect() if end is not None and not failed_to_build else ()
        # Also when all went well: a process that was refused or killed meanwhile is not the next program's doing.
        asked = suspicious or (self.is_counted and (self._ends_sandbox or self._box.is_watched))
        spent = await self._box.spent(final=self._ends_sandbox) if asked else None
        disk = (end or {}).get("disk") or {}
        tail = building.output if building is not None and failed_to_build else self._tail.decode(errors="replace")
        facts = Facts(
            exit_code=code,
            stderr_tail=tail,
            timed_out=self._timed_out,
            output_cut=self._cut and self._stop_at_output_limit,
            lost=problem is not None,
            reason=spent.reason if spent is not None else "",
            oom_kills=spent.oom_kills - self._box.oom_kills_seen if spent is not None else 0,
            processes_refused=spent.processes_refused - self._box.refusals_seen if spent is not None else 0,
            disk_free=disk.get("free"),
            inodes_free=disk.get("inodes_free"),
            refused=tuple(str(name)[:40] for name in (end or {}).get("refused") or ())[:16],
            is_python="python" in self._request or "python" in str(self._request.get("argv", "")),
        )
        if spent is not None:
            self._box.see(spent)
        cpu = (end or {}).get("cpu", 0.0)
        peak = (end or {}).get("peak", 0)
        if self._ends_sandbox and spent is not None:
            cpu = spent.cpu_time if spent.cpu_time is not None else cpu
            peak = spent.memory_peak if spent.memory_peak is not None else peak
        elif building is not None:
            cpu, peak = float(cpu) + building.cpu, max(int(peak), building.peak)
        out, err = bytes(self._kept["stdout"]), bytes(self._kept["stderr"])
        if building is None:
            error = judge(facts, self._limits)
        elif building.under_way:
            error = building.judge(facts, self._limits)
            err = building.output.encode(errors="replace")[: self._limits.output_bytes]
            if err:
                self._missed.append(Output("stderr", err))  # whoever listens sees what the compiler says
        else:
            error = judge(building.explain(facts), self._limits)
        self.result = Result(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            exit_code=124 if error is not None and error.kind == "timeout" else (128 - code if code < 0 else code),
            duration=0.0 if failed_to_build else now - (self._built or self._begin),
            cpu_time=float(cpu),
            memory_peak=int(peak),
            error=error,
            truncated=self._cut,
            stdout_bytes=out,
            stderr_bytes=err,
            wall=self._box.wall,
            results=shown,
            diagnostics=tuple(building.diagnostics) if building is not None else self._unread(error),
            build_time=self._time_to_build(now),
        )
        self._forget()
        return Exit(self.result)

    def _unread(self, error: Error | None) -> tuple[Diagnostic, ...]:
        return unread(error, self._source) if error is not None and error.kind == "syntax" else ()

    def _time_to_build(self, now: float) -> float | None:
        if self._building is None or not self._building.plan.before:
            return None
        return (self._built or now) - self._begin

    async def _collect(self) -> tuple[Display, ...]:
        """What the program has left to be displayed."""
        if self._building is None or not self._building.plan.shown:
            return ()
        from cloche.engine.left import displays

        return await displays(self._box, self._building.plan.shown, clear=not self._ends_sandbox)

    def _lacks_program(self) -> bool:
        """Is it the program that was not found, and not the folder to run it in?"""
        return not self._request.get("cwd") or (self._building is not None and not self._building.plan.run)

    def _not_started(self, told: dict[str, Any]) -> Event:
        """It never began."""
        from cloche.engine import not_started  # only now: most do

        self._forget()
        number, language = told.get("errno"), self._request.get("language")
        if number == not_started.ENOENT and language and self._lacks_program():
            lacks = self._building.plan.lacks if self._building is not None else ""
            self.result = not_started.unavailable(str(language), self._box.wall, lacks)
        elif number in not_started.NO_ROOM:
            self.result = not_started.no_room(number, self._limits, self._box.wall)
        else:
            raise not_started.refusal(told)
        return Exit(self.result)


def _later(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds
