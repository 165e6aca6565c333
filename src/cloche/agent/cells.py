"""A running cell: forwards the kernel's frames to the engine, and the engine's frames to the kernel."""

from __future__ import annotations

import os
from time import monotonic

from cloche.agent import artifacts, kernel_process
from cloche.agent.files import disk
from cloche.agent.input_waits import InputWait
from cloche.agent.input_writer import InputWriter
from cloche.agent.spawning import pipe
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.contexts import AgentContext
    from cloche.agent.main import Agent
    from cloche.agent.messages import CellRequest

_RETRY_S = 0.005
_KERNEL_FIELDS = ("code", "env", "language", "input", "shows")  # the fields of a request that kernels get
_CHILDREN_LATER_S = 0.2  # after an interrupt of a kernel that is a program of its own; see `RunningCell._interrupt`
_INPUT_LATER_S = 0.2  # after an interrupt: the interpreter has to know of it when its input ends
_SLACK_S = 1.0  # past the cell's time limit; the engine should have ended the cell by then


class RunningCell:
    """One cell from its CELL frame to its EXIT frame."""

    def __init__(self, agent: Agent, context: AgentContext, operation: int, request: CellRequest) -> None:
        assert context.kernel is not None
        self._agent, self._context, self._operation = agent, context, operation
        self._began = monotonic()
        self._credit = frames.WINDOW
        self._input_writer: InputWriter | None = None
        self._input_wait: InputWait | None = None
        self._input_file = -1
        self._early_input: list[bytes] | None = None  # input that arrived before the pipe was open; b"" marks the end
        self._alarms: list[int] = []
        self._was_overdue = False
        self._children_wait = False  # the kernel was interrupted, and its children will be
        self._is_interactive = request.get("input") == "interactive"
        self._request: dict[str, Any] = {name: request.get(name) for name in _KERNEL_FIELDS}
        was_lost, context.lost = context.lost, False
        agent.operations[operation] = self
        started = {"pid": context.kernel.pid, "lost": was_lost}
        agent.send_soon(frames.encode_json(operation, frames.STARTED, started))
        for kind, data in context.take_pending_output():
            self._send(kind, data)
        self._files = artifacts.scan(agent.home)
        timeout = request.get("timeout")
        if timeout is not None:
            # Normally the engine ends a cell whose time is up.  This is for an engine that no longer listens.
            self._alarm(float(timeout) + _SLACK_S, self._overdue)
        if not request.get("input"):
            self._begin()
        elif "fork" in context.description["how"]:
            reading, writing = pipe()
            self._open_input(writing)
            self._begin((reading,))
        elif request["input"] == "interactive":
            # A kernel that was started by exec cannot receive a descriptor.  It opens a named pipe, and we open our end
            # once the kernel has opened its own.
            self._request["stdin"] = f"/tmp/.stdin-{operation}"
            os.mkfifo(self._request["stdin"], 0o600)
            self._early_input = []
            self._begin()
            self._open_pipe()
        else:
            # The same with a file, which is complete before the cell starts.
            self._request["stdin"] = f"/tmp/.stdin-{operation}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._input_file = os.open(self._request["stdin"], flags, 0o600)

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle a frame from the engine: input, credit, a tool's answer, an interrupt or a cancellation."""
        kernel = self._context.kernel
        if kind == frames.INPUT:
            self._take_input(payload)
        elif kind == frames.INPUT_END and self._early_input is not None:
            self._early_input.append(b"")
        elif kind == frames.INPUT_END and self._input_writer is not None:
            self._input_writer.end()
            self._note_input()
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
            self._interrupt()
            self._await_end(float(frames.decode_json(payload)["grace"]))
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """End the kernel, and the cell with it."""
        if self._context.kernel is not None:
            self._context.kernel.kill()

    def accept_frame(self, operation: int, kind: int, payload: bytes) -> bool:
        """Forward a frame from the kernel; False if there is no credit for it now."""
        if operation != self._operation and kind not in (frames.STDOUT, frames.STDERR):
            return True  # a late or duplicate frame of an earlier cell
        if kind == frames.EXIT:
            self._finish({"kernel": _exit_fields(payload), "code": 0})
            return True
        if self._credit < frames.cost(payload):
            return False
        self._send(kind, payload)
        return True

    def ended_with_kernel(self, code: int, why: str = "") -> None:
        """Finish the cell, because its kernel has ended."""
        self._finish({"kernel": {}, "code": code, "died": True, "why": why})

    def _alarm(self, seconds: float, callback: Callable[[], None]) -> None:
        self._alarms.append(self._agent.after(seconds, callback))

    def _await_end(self, grace: float) -> None:
        """Interrupt the cell once more, as it may not have started when the signal came, and then end its kernel."""
        self._alarm(grace / 2, self._interrupt)
        self._alarm(grace, self.cancel)

    def _interrupt(self) -> None:
        kernel = self._context.kernel
        if kernel is None:
            return
        if "fork" in self._context.description["how"]:
            kernel.signal(kernel_process.INTERRUPT)
            if self._context.description["how"].get("ends_input"):
                self._alarm(_INPUT_LATER_S, self._end_input)
            return
        # Node can crash if it is interrupted in the moment in which a script fails, as it does when the process that
        # the script waits for is interrupted, too.  So Node's own interrupt takes effect first, or the second one if
        # the script had not begun.
        kernel.signal_alone(kernel_process.INTERRUPT)
        self._alarm(_CHILDREN_LATER_S / 2, lambda: kernel.signal_alone(kernel_process.INTERRUPT))
        self._alarm(_CHILDREN_LATER_S, self._interrupt_children)
        self._children_wait = True

    def _end_input(self) -> None:
        if self._input_writer is not None:
            self._input_writer.close()

    def _interrupt_children(self) -> None:
        if self._children_wait and self._context.kernel is not None:
            self._children_wait = False
            self._context.kernel.signal_others(kernel_process.INTERRUPT)

    def _overdue(self) -> None:
        self._was_overdue = True
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
        """Open the pipe if the kernel has opened its end; otherwise try again shortly."""
        try:
            fd = os.open(self._request["stdin"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._alarm(_RETRY_S, self._open_pipe)
            return
        writer = self._open_input(fd)
        early, self._early_input = self._early_input or [], None
        for data in early:
            if data:
                writer.write(data)
            else:
                writer.end()

    def _open_input(self, fd: int) -> InputWriter:
        self._input_writer = InputWriter(self._agent, self._operation, fd)
        if self._is_interactive:
            self._input_wait = InputWait(self._agent, self._input_writer, self._report_wait)
        return self._input_writer

    def _report_wait(self, is_waiting: bool) -> bool:
        payload = dumps({"waiting": is_waiting}).encode()
        if self._credit < frames.cost(payload):
            return False
        self._send(frames.EVENT, payload)
        return True

    def _note_input(self) -> None:
        if self._input_wait is not None:
            self._input_wait.input_came()

    def _take_input(self, data: bytes) -> None:
        if self._early_input is not None:
            self._early_input.append(data)
            return
        if self._input_writer is not None:
            self._input_writer.write(data)
            self._note_input()
            return
        try:
            if self._input_file >= 0:
                os.write(self._input_file, data)
        except OSError:
            pass  # the disk is full: the code sees only the part that fitted
        self._agent.send(frames.credit(self._operation, len(data)))

    def _finish(self, end: dict[str, Any]) -> None:
        self._context.cell = None
        for alarm in self._alarms:
            self._agent.forget_alarm(alarm)
        self._interrupt_children()
        if self._was_overdue:
            end["why"] = "overdue"
        if self._input_wait is not None:
            self._input_wait.stop()
        if self._input_writer is not None:
            self._input_writer.close()
        if self._input_file >= 0:
            os.close(self._input_file)
        if "stdin" in self._request:
            try:
                os.unlink(self._request["stdin"])
            except OSError:
                pass
        end["disk"] = disk(self._agent.home)
        end["refused"] = [name for name, when in self._agent.refused.items() if when >= self._began][:16]
        end["artifacts"] = artifacts.new_or_changed(self._files, artifacts.scan(self._agent.home))
        self._agent.finish(self._operation, frames.EXIT, end)


def _exit_fields(payload: bytes) -> dict[str, Any]:
    """Keep the known fields of a kernel's EXIT frame, whatever else the kernel sends."""
    try:
        fields = frames.decode_json(payload)
    except frames.Garbled:
        return {}
    status, numbers = fields.get("status"), ("code", "count", "cpu", "peak")
    kept: dict[str, Any] = {name: fields[name] for name in numbers if _is_number(fields.get(name))}
    if status in ("ok", "error", "exit"):
        kept["status"] = status
    return kept


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -1e18 < value < 1e18
