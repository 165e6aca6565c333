"""A cell under way: the kernel's frames go up to the engine, and what the engine sends goes down."""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import artifacts, kernel_process, processes
from cloche.agent.input_writer import InputWriter
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.contexts import AgentContext
    from cloche.agent.main import Agent

_MOMENT_S = 0.005
_FOR_KERNELS = ("code", "env", "language", "input", "shows")  # what a kernel is told of a cell
_SLACK_S = 1.0  # past a cell's time limit, for the engine to end it itself


class RunningCell:
    """A cell under way: the kernel's frames go up to the engine, and what the engine sends goes down."""

    def __init__(self, agent: Agent, context: AgentContext, operation: int, request: dict[str, Any]) -> None:
        assert context.kernel is not None
        self._agent, self._context, self._operation = agent, context, operation
        self._began = monotonic()
        self._credit = frames.WINDOW
        self._feed: InputWriter | None = None
        self._input_file = -1
        self._early: list[bytes] | None = None  # input for a pipe that is not opened yet; nothing (b"") is its end
        self._alarms: list[int] = []
        self._is_overdue = False
        self._request: dict[str, Any] = {name: request.get(name) for name in _FOR_KERNELS}
        was_lost, context.lost = context.lost, False
        agent.operations[operation] = self
        started = {"pid": context.kernel.pid, "lost": was_lost}
        agent.send_soon(frames.encode_json(operation, frames.STARTED, started))
        for kind, data in context.left_over():
            self._send(kind, data)
        self._files = artifacts.scan(agent.home)
        if request.get("timeout") is not None:
            # The engine ends it when its time is up, but perhaps nobody there listens to it any more.
            self._alarm(float(request["timeout"]) + _SLACK_S, self._overdue)
        if not request.get("input"):
            self._begin()
        elif "fork" in context.description["how"]:
            reading, writing = processes.pipe()
            self._feed = InputWriter(agent, operation, writing)
            self._begin((reading,))
        elif request["input"] == "interactive":
            # A program cannot be given a descriptor later on: it gets a named pipe, which we open when it has.
            self._request["stdin"] = f"/tmp/.stdin-{operation}"
            os.mkfifo(self._request["stdin"], 0o600)
            self._early = []
            self._begin()
            self._open_pipe()
        else:
            # The same with a file, when all of the input is there.
            self._request["stdin"] = f"/tmp/.stdin-{operation}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._input_file = os.open(self._request["stdin"], flags, 0o600)

    def receive(self, kind: int, payload: bytes) -> None:
        """Input, credit, an answer to a tool's call, an interrupt, or the wish to be rid of it."""
        kernel = self._context.kernel
        if kind == frames.INPUT:
            self._take_input(payload)
        elif kind == frames.INPUT_END and self._early is not None:
            self._early.append(b"")
        elif kind == frames.INPUT_END and self._feed is not None:
            self._feed.end()
        elif kind == frames.INPUT_END and self._input_file >= 0:
            os.close(self._input_file)
            self._input_file = -1
            self._begin()
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            if kernel is not None:
                kernel.pump()
        elif kind == frames.ANSWER and kernel is not None:
            kernel.send(self._operation, frames.ANSWER, payload)
        elif kind == frames.SIGNAL and kernel is not None:
            told = frames.decode_json(payload)
            kernel.signal(int(told["signal"]))
            if told.get("grace") is not None:
                self._await_end(float(told["grace"]))
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """End the kernel: the cell ends with it."""
        if self._context.kernel is not None:
            self._context.kernel.kill()

    def takes(self, operation: int, kind: int, payload: bytes) -> bool:
        """A frame from the kernel."""
        if operation != self._operation and kind not in (frames.STDOUT, frames.STDERR):
            return True  # of an earlier cell, told late or told twice
        if kind == frames.EXIT:
            self._finish({"kernel": _told(payload), "code": 0})
            return True
        if self._credit < frames.cost(payload):
            return False
        self._send(kind, payload)
        return True

    def ended_with_kernel(self, code: int, why: str = "") -> None:
        """The kernel is gone, and the cell with it."""
        self._finish({"kernel": {}, "code": code, "died": True, "why": why})

    def _alarm(self, seconds: float, callback: Callable[[], None]) -> None:
        self._alarms.append(self._agent.after(seconds, callback))

    def _await_end(self, grace: float) -> None:
        """It was interrupted: remind it once, as it may not have begun when it was, and then end its kernel."""
        self._alarm(grace / 2, self._interrupt)
        self._alarm(grace, self.cancel)

    def _interrupt(self) -> None:
        if self._context.kernel is not None:
            self._context.kernel.signal(kernel_process.INTERRUPT)

    def _overdue(self) -> None:
        self._is_overdue = True
        self._interrupt()
        self._await_end(2 * _SLACK_S)

    def _begin(self, descriptors: tuple[int, ...] = ()) -> None:
        kernel = self._context.kernel
        if kernel is not None:
            kernel.send(self._operation, frames.CELL, dumps(self._request).encode(), descriptors)

    def _send(self, kind: int, payload: bytes) -> None:
        self._credit -= frames.cost(payload)
        self._agent.send(frames.encode(self._operation, kind, payload))

    def _open_pipe(self) -> None:
        """Open the pipe if the kernel has, and else try again in a moment."""
        try:
            fd = os.open(self._request["stdin"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._alarm(_MOMENT_S, self._open_pipe)
            return
        self._feed = InputWriter(self._agent, self._operation, fd)
        early, self._early = self._early or [], None
        for data in early:
            if data:
                self._feed.write(data)
            else:
                self._feed.end()

    def _take_input(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
            return
        if self._feed is not None:
            self._feed.write(data)
            return
        try:
            if self._input_file >= 0:
                os.write(self._input_file, data)
        except OSError:
            pass  # the disk is full: the code finds what there was room for
        self._agent.send(frames.credit(self._operation, len(data)))

    def _finish(self, end: dict[str, Any]) -> None:
        self._context.cell = None
        for alarm in self._alarms:
            self._agent.forget_alarm(alarm)
        if self._is_overdue:
            end["why"] = "overdue"
        if self._feed is not None:
            self._feed.close()
        if self._input_file >= 0:
            os.close(self._input_file)
        if "stdin" in self._request:
            try:
                os.unlink(self._request["stdin"])
            except OSError:
                pass
        end["disk"] = processes.disk(self._agent.home)
        end["refused"] = [name for name, when in self._agent.refused.items() if when >= self._began][:16]
        end["artifacts"] = artifacts.new_or_changed(self._files, artifacts.scan(self._agent.home))
        self._agent.finish(self._operation, frames.EXIT, end)


def _told(payload: bytes) -> dict[str, Any]:
    """What a kernel tells of the end of a cell: a few words and numbers, whatever else it sends."""
    try:
        told = frames.decode_json(payload)
    except frames.Garbled:
        return {}
    status, numbers = told.get("status"), ("code", "count", "cpu", "peak")
    kept: dict[str, Any] = {name: told[name] for name in numbers if _is_number(told.get(name))}
    if status in ("ok", "error", "exit"):
        kept["status"] = status
    return kept


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -1e18 < value < 1e18
