"""The base of kernels that drive an interpreter, in which the cells run.

The kernel writes commands to one fifo and reads reports from another.  Its loop waits for the agent, for reports, and
for the end of either process.
"""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod

from cloche.kernels.channel import Channel
from cloche.kernels.interpreter import InterpreterProcess, end_like, make_fifo, make_folder, set_signal
from cloche.kernels.variable_report import VariableReport, described
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_ENOSYS = 38
_CELL_SIGNALS = (1, 2, 15)  # SIGHUP, SIGINT, SIGTERM to the group (`kill 0`, for example) are for the cell, not for us


def run_kernel(start: Callable[[], InterpreterKernel]) -> NoReturn:
    """Serve as a kernel until the agent is gone, then end like the interpreter."""
    driver, code = None, 1
    try:
        for number in _CELL_SIGNALS:
            set_signal(number, lambda *_: None)  # not SIG_IGN, which the interpreter would inherit
        driver = start()
        driver.serve()
    finally:
        if driver is not None:
            code = driver.close()
        end_like(code)


class InterpreterKernel(ABC):
    """One interpreter and its cells."""

    def __init__(self, control: int, name: str) -> None:
        self._channel = Channel(control)
        self._name = name
        self._folder = make_folder(name.lower())
        self._commands = make_fifo(f"{self._folder}/commands")
        self._reports = make_fifo(f"{self._folder}/reports")
        self._count = 0  # number of cells so far
        self._lists = 0  # number of lists of variables so far
        self._interpreter: InterpreterProcess

    def serve(self) -> None:
        """Run cells until the agent or the interpreter is gone."""
        self._channel.send_json(frames.STARTED, {"pid": os.getpid()}, 0)
        while (frame := self._channel.receive()) is not None:
            operation, kind, payload = frame
            if kind == frames.CELL:
                self._channel.operation = operation
                self._count += 1
                if not self._run(frames.decode_json(payload)):
                    return
            elif kind == frames.ASK and (request := frames.decode_json(payload)).get("what") == "list":
                self._list(operation, str(request.get("search", "")), str(request.get("name", "")))
            else:
                self._reject(frame)

    def close(self) -> int:
        """Stop the interpreter, clean up, and return how it ended; the cells' processes end with the sandbox."""
        from shutil import rmtree

        self._interpreter.stop()
        code = self._interpreter.reap()
        rmtree(self._folder, ignore_errors=True)
        return code

    @abstractmethod
    def _start_cell(self, cell: dict[str, Any], inputs: list[int]) -> None:
        """Pass a cell to the interpreter; `inputs` has the descriptor of its input, or nothing."""

    @abstractmethod
    def _ask_for_variables(self, path: str, search: str, name: str) -> None:
        """Let the interpreter write to a pipe which variables it has (see `cloche.kernels.variable_report`).

        These are the variables whose names contain `search`, or only the one called `name`, with more of its value.
        """

    @abstractmethod
    def _send_results(self) -> tuple[str, int]:
        """Send the results of a cell that is over; returns its status and exit code."""

    @abstractmethod
    def _read_reports(self) -> bool:
        """Read reports; True when the cell is over."""

    def _list(self, operation: int, search: str, name: str) -> None:
        """Answer with the variables; a cell that comes meanwhile waits."""
        self._lists += 1
        report = VariableReport(f"{self._folder}/list-{self._lists}")
        try:
            self._ask_for_variables(report.path, search, name)
            data = report.read(self._interpreter.pidfd)
        finally:
            report.close()
        answer = {"busy": True} if data is None else described(data, bool(name))
        self._channel.send_json(frames.REPLY, answer, operation)

    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell; False when the agent or the interpreter is gone."""
        inputs = self._channel.take(1) if cell.get("input") else []
        cpu_before = self._interpreter.cpu_s()
        self._start_cell(cell, inputs)
        is_over = self._wait()
        for fd in inputs:
            os.close(fd)
        if not is_over:
            return False
        status, code = self._send_results()
        usage = {"cpu": max(0.0, self._interpreter.cpu_s() - cpu_before), "peak": self._interpreter.peak_bytes()}
        self._channel.send_json(frames.EXIT, {"status": status, "code": code, "count": self._count, **usage})
        return True

    def _wait(self) -> bool:
        """Wait for the end of the cell; False when the agent or the interpreter is gone."""
        poll = select.poll()
        for fd in (self._reports, self._interpreter.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                if self._read_reports():
                    return True
            elif self._interpreter.pidfd in ready:
                return False
            if self._channel.fileno() in ready:
                frame = self._channel.receive()
                if frame is None:
                    return False
                self._reject(frame)

    def _reject(self, frame: tuple[int, int, bytes]) -> None:
        operation, kind, _ = frame
        if kind in (frames.FORK, frames.ASK):
            for fd in self._channel.take(len(self._channel.descriptors)):
                os.close(fd)
            message = f"{self._name} kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)
