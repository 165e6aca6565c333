"""Contexts: each has a name and a kernel, runs one cell at a time in it, and survives the kernel's end."""

from __future__ import annotations

import os
from _collections import deque  # type: ignore[import-not-found]

from cloche.agent import kernel_process, python
from cloche.agent.cells import RunningCell
from cloche.agent.kernel_process import KernelProcess
from cloche.agent.paths import resolve
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent
    from cloche.agent.messages import CellRequest, ContextDescription, KernelOptions, KernelStart

MAX_CONTEXTS = 32
_MAX_PENDING_OUTPUT = 256 << 10  # bytes printed between two cells that are kept for the next one
_VARIABLES_S = 5.0  # for a kernel to describe its variables
_LIST_S = 5.0  # for a kernel to list its variables
_ENOSYS, _EBUSY, _EAGAIN = 38, 16, 11


class AgentContext:
    """A named kernel, and its state between cells."""

    def __init__(self, agent: Agent, name: str, description: ContextDescription) -> None:
        self.name, self.description = name, description
        self.kernel: KernelProcess | None = None
        self.cell: RunningCell | None = None
        self.lost = False  # the kernel ended since the last cell, and its variables with it
        self.folder: str | None = None  # of a branch that has its own files
        self._agent = agent
        self._pending_output: deque[tuple[int, bytes]] = deque()

    def run(self, operation: int, request: CellRequest) -> RunningCell:
        """Start a cell."""
        if self.cell is not None:
            raise OSError(_EBUSY, "the context is already running a cell")
        if self.kernel is None:
            self.start()
        self.cell = RunningCell(self._agent, self, operation, request)
        return self.cell

    def start(self) -> None:
        """Start the context's kernel."""
        how = self.description["how"]
        if "fork" in how and not python.has_kernel(how["fork"]):
            raise OSError(_ENOSYS, "this sandbox was started for a single program and cannot run sessions")
        cwd = self.description["cwd"] if os.path.isdir(self.description["cwd"]) else self._agent.home
        environment = {**self._agent.environment, **self.description["env"]}
        _check_interpreter(how, environment)
        order: KernelOptions = {"cwd": cwd, "env": environment, "tools": self.description["tools"]}
        try:
            self.adopt(kernel_process.start(self._agent, self, how, order))
        except FileNotFoundError as problem:
            raise OSError(_ENOSYS, problem.strerror) from None

    def adopt(self, kernel: KernelProcess) -> None:
        """Make this the context's kernel."""
        kernel.owner = self
        self.kernel = kernel

    def stop(self) -> None:
        """End the kernel, if there is one, and discard its pending output."""
        kernel, self.kernel = self.kernel, None
        self._pending_output.clear()
        if kernel is not None:
            kernel.kill()
            if self.cell is not None:
                self.cell.ended_with_kernel(-kernel_process.KILL, "restart")

    def take_pending_output(self) -> list[tuple[int, bytes]]:
        """Return and clear the output printed since the last cell."""
        kept = list(self._pending_output)
        self._pending_output.clear()
        return kept

    def accept_frame(self, kernel: KernelProcess, operation: int, kind: int, payload: bytes) -> bool:
        """Accept a frame from the kernel; False if there is no room for it now."""
        if kernel is not self.kernel:
            return True  # from a kernel that was replaced
        if self.cell is not None:
            return self.cell.accept_frame(operation, kind, payload)
        if kind in (frames.STDOUT, frames.STDERR):
            self._pending_output.append((kind, payload))
            while sum(len(data) for _, data in self._pending_output) > _MAX_PENDING_OUTPUT:
                self._pending_output.popleft()
        return True

    def kernel_ended(self, kernel: KernelProcess, code: int) -> None:
        """Note that the kernel has ended; the next cell gets a new one."""
        if kernel is not self.kernel:
            return
        self.kernel = None
        if self.cell is not None:
            self.cell.ended_with_kernel(code, "garbled" if kernel.is_garbled else "")
        else:
            self.lost = True

    def has_loaded(self, name: str) -> bool:
        """Say whether a live Python kernel has imported this installed module."""
        return (
            self.kernel is not None and self.description["how"].get("fork") == "python" and self.kernel.has_loaded(name)
        )


class AgentContexts:
    """The contexts of one sandbox, by name."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.by_name: dict[str, AgentContext] = {}

    def find(self, name: str) -> AgentContext:
        """Return the context of this name, or raise FileNotFoundError."""
        if name not in self.by_name:
            raise FileNotFoundError(2, f"there is no context named {name}")
        return self.by_name[name]

    def add(self, name: str, description: ContextDescription) -> AgentContext:
        """Add a context; its kernel starts with its first cell."""
        if name in self.by_name:
            raise FileExistsError(17, f"a context named {name} already exists")
        if len(self.by_name) >= MAX_CONTEXTS:
            raise OSError(24, f"a sandbox can have at most {MAX_CONTEXTS} contexts")
        cwd = resolve(self._agent, description["cwd"]) if description.get("cwd") else self._agent.home
        if not os.path.isdir(cwd):
            raise FileNotFoundError(2, f"the working directory {cwd} does not exist")
        context = self.by_name[name] = AgentContext(self._agent, name, {**description, "cwd": cwd})
        return context

    def remove(self, name: str) -> None:
        """Remove a context and end its kernel."""
        context = self.by_name.pop(name, None)
        if context is None:
            return  # already removed
        context.stop()
        if context.folder is not None:
            self._agent.checkpoints.clear(context.folder)


def start_cell(agent: Agent, operation: int, request: CellRequest, tries: int = 10) -> None:
    """Carry out a CELL frame; creates the context if it does not exist and the frame describes it."""
    name = str(request["context"])
    known = agent.contexts.by_name.get(name)
    if known is None and not request.get("create"):
        raise FileNotFoundError(2, f"there is no context named {name}")
    context: AgentContext = known or agent.contexts.add(name, request["create"])
    try:
        context.run(operation, request)
    except OSError as problem:
        if known is None:
            del agent.contexts.by_name[name]
        if problem.errno != _EAGAIN or not tries or request.get("input"):
            raise
        # No room for another process: the processes of a kernel that was just killed may not be reaped yet.
        agent.after(0.1, lambda: _start_again(agent, operation, request, tries - 1))


def _start_again(agent: Agent, operation: int, request: CellRequest, tries: int) -> None:
    try:
        start_cell(agent, operation, request, tries)
    except (OSError, ValueError) as problem:
        agent.fail(operation, problem)


def _create(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    context = agent.contexts.add(str(request["context"]), request["create"])
    agent.finish(operation, frames.REPLY, {"cwd": context.description["cwd"]})


def _remove(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    agent.contexts.find(str(request["context"]))
    agent.contexts.remove(str(request["context"]))
    agent.finish(operation, frames.REPLY, {})


def _restart(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    context = agent.contexts.find(str(request["context"]))
    context.stop()
    context.lost = False
    agent.finish(operation, frames.REPLY, {})


def _variables(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    context = agent.contexts.find(str(request["context"]))
    if context.kernel is None:
        agent.finish(operation, frames.REPLY, {"variables": {}})
        return

    def answered(answer: dict[str, Any] | OSError) -> None:
        for alarm in alarms:
            agent.forget_alarm(alarm)
        if isinstance(answer, OSError):
            agent.fail(operation, answer)
        else:
            agent.finish(operation, frames.REPLY, answer)

    kernel: KernelProcess = context.kernel
    # Describing a variable can take forever.
    alarms = [
        agent.after(_VARIABLES_S, lambda: kernel.signal(kernel_process.INTERRUPT)),
        agent.after(2 * _VARIABLES_S, kernel.kill),
    ]
    kernel.ask(frames.ASK, {"what": "variables", "digest": bool(request.get("digest"))}, answered)


def _list_variables(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Let an idle kernel list its variables; a kernel that runs a cell, or does not answer in time, is busy."""
    context = agent.contexts.find(str(request["context"]))
    if context.kernel is None:
        agent.finish(operation, frames.REPLY, {"items": [], "total": 0})
        return
    if context.cell is not None:
        agent.finish(operation, frames.REPLY, {"busy": True})
        return
    is_over = False

    def answered(answer: dict[str, Any] | OSError) -> None:
        nonlocal is_over
        if is_over:
            return
        is_over = True
        agent.forget_alarm(alarm)
        if isinstance(answer, OSError):
            agent.fail(operation, answer)
        else:
            agent.finish(operation, frames.REPLY, answer)

    # The kernel is not interrupted and not ended: it lists the variables without running any code of theirs.
    alarm = agent.after(_LIST_S, lambda: answered({"busy": True}))
    question = {"what": "list", "search": str(request.get("search", "")), "name": str(request.get("name", ""))}
    context.kernel.ask(frames.ASK, question, answered)


CALLS = {
    "create context": _create,
    "remove context": _remove,
    "restart context": _restart,
    "variables": _variables,
    "list variables": _list_variables,
}


def _check_interpreter(how: KernelStart, environment: dict[str, str]) -> None:
    """Check that the interpreter which a forked kernel drives is installed."""
    program = how.get("needs")
    folders = environment.get("PATH", os.defpath).split(":")
    if program is not None and not any(os.access(f"{folder}/{program}", os.X_OK) for folder in folders):
        raise OSError(_ENOSYS, f"{program} is not installed in this sandbox")
