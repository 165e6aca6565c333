"""Requests for the rows of tables: those that a session displayed, and those in files.

A session's kernel answers between two cells; it is interrupted if that takes long, but never killed.  Files are read by
a kernel that belongs to nobody's session.  A file that takes too long or too much memory ends that kernel, and the next
request starts another one.
"""

from __future__ import annotations

from cloche.agent import kernel_process
from cloche.agent.paths import resolve
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.contexts import AgentContext
    from cloche.agent.kernel_process import KernelProcess
    from cloche.agent.main import Agent

IDLE_S = 300.0  # after which the kernel that reads files is ended
_GIVE_UP_S = 4.0  # after an interrupt
_EBUSY, _ENOMEM, _ETIMEDOUT = 16, 12, 110


class TableReader:
    """The kernel that reads tables from files, while there is one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kernel: KernelProcess | None = None
        self._idle: int | None = None

    def kernel(self) -> KernelProcess:
        """Return the kernel, and start it if there is none."""
        if self._kernel is None:
            order: Any = {"cwd": "/", "env": self._agent.environment, "tools": []}
            self._kernel = kernel_process.start(self._agent, self, {"fork": "python"}, order)
        if self._idle is not None:
            self._agent.forget_alarm(self._idle)
        kernel = self._kernel
        self._idle = self._agent.after(IDLE_S, lambda: self.end(kernel))
        return kernel

    def end(self, kernel: KernelProcess) -> None:
        """End the kernel; the next request starts another one, even while this one is still dying."""
        if kernel is self._kernel:
            self._kernel = None
        kernel.kill()

    def accept_frame(self, _kernel: KernelProcess, _operation: int, _kind: int, _payload: bytes) -> bool:
        """Discard output: libraries print warnings."""
        return True

    def kernel_ended(self, kernel: KernelProcess, _code: int) -> None:
        """Note that the kernel has ended."""
        if kernel is self._kernel:
            self._kernel = None


def _start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    if "path" in request:
        _ask_reader(agent, operation, {**request, "path": resolve(agent, str(request["path"]))})
    else:
        context = agent.contexts.find(str(request["context"]))
        _ask_session(agent, operation, context, request)


def _ask_session(agent: Agent, operation: int, context: AgentContext, request: dict[str, Any]) -> None:
    kernel = context.kernel
    if kernel is None or context.description["how"].get("fork") != "python":
        agent.finish(operation, frames.REPLY, {"problem": "gone"})
        return
    if context.cell is not None:
        raise OSError(_EBUSY, "the session is running code")
    reply = _Reply(agent, operation)
    reply.alarm(request["seconds"], lambda: kernel.signal_alone(kernel_process.INTERRUPT))
    reply.alarm(request["seconds"] + _GIVE_UP_S, reply.overdue)
    kernel.ask(frames.ASK, {**request, "what": "rows"}, reply.answered)


def _ask_reader(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    kernel = agent.table_reader.kernel()
    reply = _Reply(agent, operation)

    def overdue() -> None:
        reply.overdue()
        agent.table_reader.end(kernel)

    reply.alarm(request["seconds"], overdue)
    kernel.ask(frames.ASK, {**request, "what": "rows"}, reply.answered)


class _Reply:
    """The answer to one request, which comes once: from the kernel, or from an alarm."""

    def __init__(self, agent: Agent, operation: int) -> None:
        self._agent, self._operation = agent, operation
        self._alarms: list[int] = []
        self._is_sent = False

    def alarm(self, seconds: float, callback: Any) -> None:
        """Call back unless the answer comes first."""
        self._alarms.append(self._agent.after(seconds, callback))

    def overdue(self) -> None:
        """Answer that the time is up."""
        self.answered(OSError(_ETIMEDOUT, "the time is up"))

    def answered(self, answer: dict[str, Any] | OSError) -> None:
        """Send an answer, unless one was sent."""
        if self._is_sent:
            return
        self._is_sent = True
        for alarm in self._alarms:
            self._agent.forget_alarm(alarm)
        if isinstance(answer, OSError):
            self._agent.fail(self._operation, answer)
        else:
            self._agent.finish(self._operation, frames.REPLY, answer)


CALLS = {"rows": _start}
