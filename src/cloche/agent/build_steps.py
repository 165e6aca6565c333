"""Runs compilers before a program, and checkers beside it.  Their output is kept apart from the program's."""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import process_trees, processes
from cloche.agent.spawning import pipe, spawn
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent
    from cloche.agent.messages import RunRequest, StepRequest

_SCRATCH = "/tmp/build"  # where languages/language.py lets compilers put their results
_MAX_OUTPUT = 128 << 10  # bytes of a step's output that are forwarded; as JSON they can grow sixfold


def start(agent: Agent, operation: int, request: RunRequest) -> None:
    """Carry out a RUN frame that has build steps; the program follows when they succeed."""
    os.makedirs(_SCRATCH, exist_ok=True)
    processes.write_sources(request)
    run = BuildThenRun(agent, operation, request)
    agent.operations[operation] = run
    run.begin()


class BuildThenRun:
    """A run whose program has not started yet."""

    def __init__(self, agent: Agent, operation: int, request: RunRequest) -> None:
        self._agent, self._operation, self._request = agent, operation, request
        self._remaining: list[StepRequest] = list(request.get("before") or ())
        self._current: BuildStep | None = None
        self._side_step: BuildStep | None = None
        self._running: processes.RunningProgram | None = None
        # Frames for the program, until it has started; credit bounds them.
        self._kept_frames: list[tuple[int, bytes]] = []
        self._began = monotonic()

    def begin(self) -> None:
        """Start the first step, and the step that runs beside everything."""
        beside = self._request.get("beside")
        if beside:
            self._side_step = BuildStep(self._agent, self._request, beside, self._side_step_ended)
        try:
            self._continue()
        except BaseException:
            if self._side_step is not None:
                self._side_step.cancel()
            raise

    def receive(self, kind: int, payload: bytes) -> None:
        """Keep the program's frames for later; a signal or a cancellation ends the run."""
        if kind == frames.CANCEL:
            self.cancel()
        elif kind == frames.SIGNAL:
            self.cancel()  # an interrupted run should not start its program
        else:
            self._kept_frames.append((kind, payload))

    def cancel(self) -> None:
        """Kill the running steps."""
        self._remaining.clear()
        for step in (self._current, self._side_step):
            if step is not None:
                step.cancel()

    def _continue(self) -> None:
        if self._remaining:
            step = self._remaining.pop(0)
            self._current = BuildStep(self._agent, self._request, step, self._ended)
            return
        self._current = None
        del self._agent.operations[self._operation]  # the program takes over the operation
        now = monotonic()  # before the start: a short program may have ended when `start_program` returns
        program = processes.start_program(self._agent, self._operation, self._request)
        self._running, program.side_step, program.began = program, self._side_step, now
        for kind, payload in self._kept_frames:
            program.receive(kind, payload)

    def _ended(self, step: BuildStep, status: int, usage: Any) -> None:
        self._current = None
        self._report(step, status, usage)
        if status == 0:
            try:
                self._continue()
            except (OSError, ValueError) as problem:
                self._drop_side_step()
                self._agent.fail(self._operation, problem)
            return
        self._drop_side_step()
        outcome = processes.outcome(self._agent, status, usage, self._began)
        self._agent.finish(self._operation, frames.EXIT, {**outcome, "stage": step.name})

    def _drop_side_step(self) -> None:
        if self._side_step is not None:
            self._side_step.cancel()
            self._side_step = None

    def _side_step_ended(self, step: BuildStep, status: int, usage: Any) -> None:
        if self._side_step is None:
            return  # the run has ended without it
        self._side_step = None
        self._report(step, status, usage)
        if self._running is not None:
            self._running.side_step_ended()

    def _report(self, step: BuildStep, status: int, usage: Any) -> None:
        report = {
            "stage": step.name,
            "code": os.waitstatus_to_exitcode(status),
            "output": step.output.decode("utf-8", "replace"),
            "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * 1024,
        }
        self._agent.send(frames.encode_json(self._operation, frames.EVENT, report))


class BuildStep:
    """A running compiler or checker; the beginning of its output is kept."""

    def __init__(
        self,
        agent: Agent,
        request: RunRequest,
        step: StepRequest,
        ended: Callable[[BuildStep, int, Any], None],
    ) -> None:
        self.name = str(step["name"])
        self.output = bytearray()
        self._agent, self._done = agent, ended
        environment = {**agent.environment, **request.get("env", {}), **step.get("env", {})}
        cwd = step.get("cwd") or agent.home
        os.makedirs(cwd, exist_ok=True)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._output_pipe, writing = pipe()
        try:
            self.pid = spawn(list(step["argv"]), cwd, environment, (null, writing, writing))
        except BaseException:
            os.close(self._output_pipe)
            raise
        finally:
            os.close(null)
            os.close(writing)
        os.set_blocking(self._output_pipe, False)
        agent.watch(self._output_pipe, self._read_output)
        agent.adopt(self.pid, self._ended)

    def cancel(self) -> None:
        """Kill the step and all processes that it started."""
        process_trees.end_tree(self._agent, self.pid)

    def _read_output(self) -> None:
        while True:
            try:
                data = os.read(self._output_pipe, 64 << 10)
            except BlockingIOError:
                return
            if not data:
                self._agent.unwatch(self._output_pipe)
                return
            self.output += data[: _MAX_OUTPUT - len(self.output)]

    def _ended(self, status: int, usage: Any) -> None:
        self._read_output()
        self._agent.unwatch(self._output_pipe)
        os.close(self._output_pipe)
        self._done(self, status, usage)
