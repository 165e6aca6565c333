"""A kernel that drives an interpreter, in which the cells run: what is the same for all of them.

It tells the interpreter on a fifo what to do, and reads on another what came of it.  Between them waits this loop, for
the agent, for a report, and for the end of either.
"""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod

from cloche.kernels.channel import Channel
from cloche.kernels.interpreter import Interpreter, end_like, make_fifo, make_folder, set_signal
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_ENOSYS = 38
_FOR_THE_CELL = (1, 2, 15)  # SIGHUP, SIGINT and SIGTERM of the whole group, `kill 0` for one: not for us


def run_kernel(start: Callable[[], InterpreterKernel]) -> NoReturn:
    """Be a kernel, until the agent is gone; then end as the interpreter did."""
    driver, code = None, 1
    try:
        for number in _FOR_THE_CELL:
            set_signal(number, lambda *_: None)  # not ignored, which would be inherited
        driver = start()
        driver.serve()
    finally:
        if driver is not None:
            code = driver.close()
        end_like(code)


class InterpreterKernel(ABC):
    """One interpreter and its cells, one after the other."""

    def __init__(self, control: int, name: str) -> None:
        self._channel = Channel(control)
        self._name = name
        self._folder = make_folder(name.lower())
        self._commands = make_fifo(f"{self._folder}/commands")
        self._reports = make_fifo(f"{self._folder}/reports")
        self._count = 0  # of cells
        self._interpreter: Interpreter

    def serve(self) -> None:
        """Until the agent is gone, or the interpreter."""
        self._channel.send_json(frames.STARTED, {"pid": os.getpid()}, 0)
        while (frame := self._channel.receive()) is not None:
            operation, kind, payload = frame
            if kind == frames.CELL:
                self._channel.operation = operation
                self._count += 1
                if not self._run(frames.decode_json(payload)):
                    return
            else:
                self._refuse(frame)

    def close(self) -> int:
        """Leave nothing behind; what a cell started goes with the sandbox.  Tells how the interpreter ended."""
        from shutil import rmtree

        self._interpreter.stop()
        code = self._interpreter.reap()
        rmtree(self._folder, ignore_errors=True)
        return code

    @abstractmethod
    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell and tell what came of it; False when the agent is gone, or the interpreter."""

    @abstractmethod
    def _reported(self) -> bool:
        """Read what it reports; is the cell over?"""

    def _wait(self) -> bool:
        """Is the cell over?  False when the agent is gone, or the interpreter."""
        poll = select.poll()
        for fd in (self._reports, self._interpreter.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                if self._reported():
                    return True
            elif self._interpreter.pidfd in ready:
                return False
            if self._channel.fileno() in ready:
                frame = self._channel.receive()
                if frame is None:
                    return False
                self._refuse(frame)

    def _end(self, status: str, code: int, cpu_before: float) -> None:
        usage = {"cpu": max(0.0, self._interpreter.cpu_s() - cpu_before), "peak": self._interpreter.peak_bytes()}
        self._channel.send_json(frames.EXIT, {"status": status, "code": code, "count": self._count, **usage})

    def _refuse(self, frame: tuple[int, int, bytes]) -> None:
        operation, kind, _ = frame
        if kind in (frames.FORK, frames.ASK):
            for fd in self._channel.take(len(self._channel.descriptors)):
                os.close(fd)
            message = f"{self._name} kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)
