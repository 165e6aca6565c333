"""Programs: starts them, forwards their input and output, ends them, and reports how they ended."""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import artifacts, process_trees, python, signals, spare_python, terminals
from cloche.agent.files import disk
from cloche.agent.input_waits import InputWait
from cloche.agent.input_writer import InputWriter
from cloche.agent.paths import resolve
from cloche.agent.spawning import pipes, spawn, write_file
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cloche.agent.build_steps import BuildStep
    from cloche.agent.main import Agent
    from cloche.agent.messages import ProgramOrder, RunRequest, TerminalRequest
    from cloche.agent.prestarted import PrestartedCommand

_FORWARD_DELAY_S = 0.003  # delay before the output of a program without input is read; see `forward_output_soon`


def start(agent: Agent, operation: int, request: RunRequest) -> None:
    """Carry out a RUN frame that has no build steps."""
    write_sources(request)
    start_program(agent, operation, request)


def write_sources(request: RunRequest) -> None:
    """Write the source files of the request."""
    for path, text in request.get("sources", ()):
        _write_source(path, text)


def start_program(agent: Agent, operation: int, request: RunRequest) -> RunningProgram:
    """Start the request's program."""
    cwd = resolve(agent, request["cwd"]) if request.get("cwd") else agent.home
    environment = {**agent.environment, **request.get("env", {})}
    terminal = request.get("terminal")
    if not os.path.isdir(cwd):
        raise FileNotFoundError(2, f"the working directory {cwd} does not exist")
    files_before = artifacts.scan(agent.home) if request.get("artifacts") else None
    last_pid = _last_pid()  # before the program can start others
    script = request.get("python")
    streams = terminals.streams_of(terminal) if terminal else []
    if terminal:
        environment.setdefault("TERM", "xterm-256color")
        if script is None:
            environment.setdefault("PROMPT_COMMAND", terminals.PROMPT_COMMAND)
    if script is not None and python.needs_fresh_interpreter(environment):
        request = {**request, "argv": ["python3", script, *request.get("args", [])]}
        script = None
    if script is not None:
        program: ProgramOrder = {"script": script, "args": request.get("args", []), "cwd": cwd, "env": environment}
        process = _start_python(agent, operation, program, terminal)
    elif (prestarted := _take_prestarted(agent, request, cwd, environment)) is not None:
        prestarted.resume()
        process = RunningProgram(
            agent, operation, prestarted.pid, prestarted.stdin, prestarted.stdout, prestarted.stderr
        )
    elif terminal:
        pid, own_ends = terminals.spawn(request["argv"], cwd, environment, terminal)
        process = RunningProgram(agent, operation, pid, *own_ends, streams)
    else:
        process = _start_with_pipes(agent, operation, request["argv"], cwd, environment)
    process.files_before, process.last_pid = files_before, last_pid
    if not request.get("input") and 0 not in streams:
        process.close_input()
    agent.operations[operation] = process
    if request.get("awaited") or terminal:
        process.forward_output()
    else:
        process.forward_output_soon()
    if request.get("input") and 0 not in streams:
        process.watch_input()  # last: the program is not known to wait before it is known to have started
    return process


def _start_python(
    agent: Agent, operation: int, program: ProgramOrder, terminal: TerminalRequest | None
) -> RunningProgram:
    if not terminal:
        spare = spare_python.start_program(agent, program)  # first: the program runs while we do the bookkeeping
        return RunningProgram(agent, operation, spare.pid, spare.stdin, spare.stdout, spare.stderr)
    streams = terminals.streams_of(terminal)
    master, name = terminals.make(terminal)
    spare = spare_python.start_program(agent, {**program, "terminal": name, "streams": streams})
    own_ends = terminals.own_ends(master, streams, (spare.stdin, spare.stdout, spare.stderr))
    return RunningProgram(agent, operation, spare.pid, *own_ends, streams)


def _write_source(path: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    try:
        write_file(path, data)
    except FileNotFoundError:  # the previous program has removed the folder
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_file(path, data)


def _take_prestarted(
    agent: Agent, request: RunRequest, cwd: str, environment: dict[str, str]
) -> PrestartedCommand | None:
    """Return the prestarted command if it matches the request; otherwise discard it."""
    prestarted, agent.prestarted = agent.prestarted, None
    if prestarted is None:
        return None
    if not request.get("terminal") and cwd == agent.home and prestarted.matches(request["argv"], environment):
        return prestarted
    prestarted.discard()
    return None


class RunningProgram:
    """A running program and its three streams."""

    def __init__(
        self,
        agent: Agent,
        operation: int,
        pid: int,
        stdin: int,
        stdout: int,
        stderr: int | None,
        terminal: Sequence[int] = (),  # the streams that are a terminal, whose master is `stdout`
    ) -> None:
        self.pid = pid
        self._agent, self._operation = agent, operation
        self.began = monotonic()
        self.last_pid = 0  # the newest process in the sandbox before the program began
        self._outputs = {stdout: frames.STDOUT}
        if stderr is not None:
            self._outputs[stderr] = frames.STDERR
        self._terminal = stdout if terminal else None
        self._input = InputWriter(agent, operation, stdin, self._type_end if 0 in terminal else None)
        self._input_wait: InputWait | None = None
        self._credit = frames.WINDOW
        self._paused: set[int] = set()
        self._end: tuple[int, Any] | None = None
        self._run_s = 0.0  # seconds
        self._alarm: int | None = None  # set until the output is read
        self.files_before: dict[str, tuple[int, int, int]] | None = None  # in the output folder, if that is wanted
        self.side_step: BuildStep | None = None  # a checker that runs beside the program; EXIT waits for its end
        agent.adopt(pid, self._ended)

    def forward_output_soon(self) -> None:
        """Start forwarding in a moment, or at the program's end.

        Most programs without input end before that, which saves a wake-up.
        """
        self._alarm = self._agent.after(_FORWARD_DELAY_S, self.forward_output)

    def forward_output(self) -> None:
        """Report the start, and forward the output from now on."""
        self._announce()
        for fd in self._outputs:
            self._agent.watch(fd, lambda fd=fd: self._readable(fd))  # type: ignore[misc]

    def _announce(self) -> None:
        if self._alarm is not None:
            self._agent.forget_alarm(self._alarm)
            self._alarm = None
        self._agent.send(frames.encode_json(self._operation, frames.STARTED, {"pid": self.pid}))

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle a frame: input, its end, credit, a signal, a terminal size or a cancellation."""
        if kind in (frames.INPUT, frames.INPUT_END):
            if kind == frames.INPUT:
                self._input.write(payload)
            else:
                self._input.end()
            if self._input_wait is not None:
                self._input_wait.input_came()
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            for fd in list(self._paused):
                self._paused.discard(fd)
                self._agent.watch(fd, lambda fd=fd: self._readable(fd))  # type: ignore[misc]
            if self._end is not None:
                self._drain()
        elif kind == frames.SIGNAL:
            self._signal(int(frames.decode_json(payload)["signal"]))
        elif kind == frames.RESIZE and self._terminal in self._outputs:
            size = frames.decode_json(payload)
            terminals.resize(self._terminal, int(size["columns"]), int(size["rows"]))
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Kill the program and everything that it started."""
        if self.side_step is not None:
            self.side_step.cancel()
        if self._end is None:
            process_trees.end_tree(self._agent, self.pid)

    def watch_input(self) -> None:
        """Report when the program waits for input."""
        self._input_wait = InputWait(self._agent, self._input, self._report_wait)

    def close_input(self) -> None:
        """Close the program's standard input."""
        if self._input_wait is not None:
            self._input_wait.stop()
        self._input.close()

    def _report_wait(self, is_waiting: bool) -> bool:
        frame = frames.encode_json(self._operation, frames.EVENT, {"waiting": is_waiting})
        if self._credit < frames.LEAST:
            return False
        self._credit -= frames.LEAST
        self._agent.send(frame)
        return True

    def _signal(self, number: int) -> None:
        if self._end is not None:
            return
        group = self.pid
        if self._terminal in self._outputs and number != signals.SIGKILL:
            try:
                group = os.tcgetpgrp(self._terminal) or self.pid
            except OSError:
                pass
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            os.kill(self.pid, number)  # it leads no group yet; the pid stays its own until it is reaped

    def _type_end(self) -> None:
        """Type Ctrl-D (twice within a line), as a person would at the end of input; the terminal stays open."""
        try:
            os.write(self._input.fd or -1, b"\x04\x04" if self._input.within_line else b"\x04")
        except BlockingIOError:
            self._input.end_later()
        except OSError:
            pass  # nobody reads the terminal

    def _readable(self, fd: int) -> None:
        self._read(fd)
        if self._end is not None:
            self._drain()

    def _read(self, fd: int) -> bool:
        """Forward one chunk; False when there is nothing more for now."""
        if self._credit < frames.LEAST:
            self._agent.unwatch(fd)
            self._paused.add(fd)
            return False
        try:
            data = os.read(fd, min(frames.CHUNK, self._credit))
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose last user is gone
            data = b""
        if not data:
            self._close(fd)
            return False
        self._credit -= frames.cost(data)
        self._agent.send(frames.encode(self._operation, self._outputs[fd], data))
        return True

    def _close(self, fd: int) -> None:
        self._agent.unwatch(fd)
        self._paused.discard(fd)
        del self._outputs[fd]
        os.close(fd)

    def _ended(self, status: int, usage: Any) -> None:
        if self._alarm is not None:
            self._announce()
        self._end, self._run_s = (status, usage), monotonic() - self.began
        self._drain()

    def side_step_ended(self) -> None:
        """Note that the checker beside the program has ended."""
        self.side_step = None
        if self._end is not None:
            self._drain()

    def _drain(self) -> None:
        # The program has ended, so all its output is in the pipes by now.  Read them until they are empty, not until
        # they are closed: a child that it left behind may hold them open forever.
        if self._agent.operations.get(self._operation) is not self:
            return
        for fd in list(self._outputs):
            while self._read(fd):
                pass
            if fd in self._paused:
                return  # the rest follows when the engine grants credit
        assert self._end is not None
        for fd in list(self._outputs):
            self._close(fd)
        self.close_input()
        if self.side_step is not None:
            self._agent.send(frames.encode_json(self._operation, frames.EVENT, {"ended": True}))
        else:
            report = {**outcome(self._agent, *self._end, self.began), "ran": self._run_s}
            report["started"] = _last_pid() - max(self.last_pid, self.pid)
            if self.files_before is not None:
                report["artifacts"] = artifacts.new_or_changed(self.files_before, artifacts.scan(self._agent.home))
            self._agent.finish(self._operation, frames.EXIT, report)


def _last_pid() -> int:
    """Return the number of the newest process or thread in the sandbox; two such numbers tell how many were started."""
    try:
        file = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)  # every run does this twice: `open` is slower
        try:
            return int(os.read(file, 100).split()[-1])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return 0


def outcome(agent: Agent, status: int, usage: Any, began: float) -> dict[str, Any]:
    """Describe how a process ended and what it used."""
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * 1024,
        "disk": disk(agent.home),
        "refused": [name for name, when in agent.refused.items() if when >= began][:16],
    }


def _start_with_pipes(
    agent: Agent, operation: int, argv: list[str], cwd: str, environment: dict[str, str]
) -> RunningProgram:
    child_ends, own_ends = pipes()
    try:
        try:
            pid = spawn(argv, cwd, environment, child_ends)
        except BlockingIOError:  # the process limit is reached
            if not spare_python.gave_way(agent):
                raise
            pid = spawn(argv, cwd, environment, child_ends)
    except BaseException:
        for fd in own_ends:
            os.close(fd)
        raise
    finally:
        for fd in child_ends:
            os.close(fd)
    return RunningProgram(agent, operation, pid, *own_ends)
