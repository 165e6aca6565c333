"""What is done before a program and beside it: compilers and checkers, whose output is told apart from its own."""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import process_trees, processes
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

_SCRATCH = "/tmp/build"  # where languages/language.py has compilers leave what they make
_MAX_OUTPUT = 128 << 10  # bytes of what a stage says that are passed on; as JSON they are six times as many at worst


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Begin with what comes first; the program follows by itself when that went well."""
    os.makedirs(_SCRATCH, exist_ok=True)
    processes.write_sources(request)
    stages = BuildThenRun(agent, operation, request)
    agent.operations[operation] = stages
    stages.begin()


class BuildThenRun:
    """A run that has not come to its program yet."""

    def __init__(self, agent: Agent, operation: int, request: dict[str, Any]) -> None:
        self._agent, self._operation, self._request = agent, operation, request
        self._waiting: list[dict[str, Any]] = list(request.get("before") or ())
        self._now: BuildStep | None = None
        self._beside: BuildStep | None = None
        self._program: processes.RunningProgram | None = None
        self._held: list[tuple[int, bytes]] = []  # for the program, once it is there; at most what credit allows
        self._began = monotonic()

    def begin(self) -> None:
        """Start the first of them, and what goes beside them all."""
        beside = self._request.get("beside")
        if beside:
            self._beside = BuildStep(self._agent, self._request, beside, self._beside_ended)
        try:
            self._go_on()
        except BaseException:
            if self._beside is not None:
                self._beside.cancel()
            raise

    def receive(self, kind: int, payload: bytes) -> None:
        """What is meant for the program waits for it; an end is the end of all."""
        if kind == frames.CANCEL:
            self.cancel()
        elif kind == frames.SIGNAL:
            self.cancel()  # whoever interrupts a run does not want its program any more
        else:
            self._held.append((kind, payload))

    def cancel(self) -> None:
        """Kill what is under way."""
        self._waiting.clear()
        for stage in (self._now, self._beside):
            if stage is not None:
                stage.cancel()

    def _go_on(self) -> None:
        if self._waiting:
            step = self._waiting.pop(0)
            self._now = BuildStep(self._agent, self._request, step, self._ended)
            return
        self._now = None
        del self._agent.operations[self._operation]  # the program takes its place
        now = monotonic()  # a short program may be over by the time that it is said to have started
        program = processes.start_program(self._agent, self._operation, self._request)
        self._program, program.beside, program.began = program, self._beside, now
        for kind, payload in self._held:
            program.receive(kind, payload)

    def _ended(self, stage: BuildStep, status: int, usage: Any) -> None:
        self._now = None
        self._tell(stage, status, usage)
        if status == 0:
            try:
                self._go_on()
            except (OSError, ValueError) as problem:
                self._give_up()
                self._agent.fail(self._operation, problem)
            return
        self._give_up()
        told = processes.outcome(self._agent, status, usage, self._began)
        self._agent.finish(self._operation, frames.EXIT, {**told, "stage": stage.name})

    def _give_up(self) -> None:
        if self._beside is not None:
            self._beside.cancel()
            self._beside = None

    def _beside_ended(self, stage: BuildStep, status: int, usage: Any) -> None:
        if self._beside is None:
            return  # nobody waits for it any more
        self._beside = None
        self._tell(stage, status, usage)
        if self._program is not None:
            self._program.company_left()

    def _tell(self, stage: BuildStep, status: int, usage: Any) -> None:
        told = {
            "stage": stage.name,
            "code": os.waitstatus_to_exitcode(status),
            "output": stage.output.decode("utf-8", "replace"),
            "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * 1024,
        }
        self._agent.send(frames.encode_json(self._operation, frames.EVENT, told))


class BuildStep:
    """A compiler or a checker at work; the beginning of what it says is kept."""

    def __init__(
        self,
        agent: Agent,
        request: dict[str, Any],
        step: dict[str, Any],
        ended: Callable[[BuildStep, int, Any], None],
    ) -> None:
        self.name = str(step["name"])
        self.output = bytearray()
        self._agent, self._done = agent, ended
        environment = {**agent.environment, **request.get("env", {}), **step.get("env", {})}
        cwd = step.get("cwd") or agent.home
        os.makedirs(cwd, exist_ok=True)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._said, saying = processes.pipe()
        try:
            self.pid = processes.spawn(list(step["argv"]), cwd, environment, (nothing, saying, saying))
        except BaseException:
            os.close(self._said)
            raise
        finally:
            os.close(nothing)
            os.close(saying)
        os.set_blocking(self._said, False)
        agent.watch(self._said, self._listen)
        agent.adopt(self.pid, self._ended)

    def cancel(self) -> None:
        """Kill it and everything that it has started."""
        process_trees.end_tree(self._agent, self.pid)

    def _listen(self) -> None:
        while True:
            try:
                data = os.read(self._said, 64 << 10)
            except BlockingIOError:
                return
            if not data:
                self._agent.unwatch(self._said)
                return
            self.output += data[: _MAX_OUTPUT - len(self.output)]

    def _ended(self, status: int, usage: Any) -> None:
        self._listen()
        self._agent.unwatch(self._said)
        os.close(self._said)
        self._done(self, status, usage)
