"""Contexts: each has a kernel, runs one cell at a time in it, and outlives it."""

from __future__ import annotations

import os
from _collections import deque  # type: ignore[import-not-found]
from time import monotonic

from cloche.agent import kernel as kernels
from cloche.agent import processes, python
from cloche.agent.feed import Feed
from cloche.agent.files import resolve
from cloche.agent.kernel import Kernel
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

MAX_CONTEXTS = 32
OUTPUT_FOLDER = "output"  # in the workspace: what a cell leaves there is its artifacts
_LEFT_OVER = 256 << 10  # bytes printed between two cells that are kept for the next
_SCANNED, _TOLD = 5000, 200  # files and folders looked at for artifacts, and files told of
_TOLD_BYTES = 256 << 10  # of their names
_TELL_S = 5.0  # for a kernel to tell its variables
_SLACK_S = 1.0  # past a cell's time limit, for the engine to end it itself
_PATIENCE = {"PIP_RETRIES": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # a network that is not there will not come
_ENOSYS, _EBUSY, _EAGAIN = 38, 16, 11


class Context:
    """A kernel with a name, and what is known of it between two cells."""

    def __init__(self, agent: Agent, name: str, description: dict[str, Any]) -> None:
        self.name, self.description = name, description
        self.kernel: Kernel | None = None
        self.cell: Cell | None = None
        self.lost = False  # a kernel with state has ended since the last cell
        self.folder: str | None = None  # of a branch with files of its own
        self._agent = agent
        self._left_over: deque[tuple[int, bytes]] = deque()

    def run(self, operation: int, request: dict[str, Any]) -> Cell:
        """Begin a cell."""
        if self.cell is not None:
            raise OSError(_EBUSY, "this context runs another cell")
        if self.kernel is None:
            self.start()
        self.cell = Cell(self._agent, self, operation, request)
        return self.cell

    def start(self) -> None:
        """Start its kernel."""
        how = self.description["how"]
        if "fork" in how and not python.has_kernel(how["fork"]):
            raise OSError(_ENOSYS, "this sandbox was made for a single program, and has no kernels")
        cwd = self.description["cwd"] if os.path.isdir(self.description["cwd"]) else self._agent.home
        environment = {**_PATIENCE, **self._agent.environment, **self.description["env"]}
        order = {"cwd": cwd, "env": environment, "tools": self.description["tools"]}
        try:
            self.adopt(kernels.start(self._agent, self, how, order))
        except FileNotFoundError as problem:
            raise OSError(_ENOSYS, problem.strerror) from None

    def adopt(self, kernel: Kernel) -> None:
        """From now on this is its kernel."""
        kernel.owner = self
        self.kernel = kernel

    def stop(self) -> None:
        """End its kernel, if it has one, and forget what it printed."""
        kernel, self.kernel = self.kernel, None
        self._left_over.clear()
        if kernel is not None:
            kernel.kill()
            if self.cell is not None:
                self.cell.ended_with_kernel(-kernels.KILL, "restart")

    def left_over(self) -> list[tuple[int, bytes]]:
        """What was printed since the last cell ended."""
        kept = list(self._left_over)
        self._left_over.clear()
        return kept

    def takes(self, kernel: Kernel, operation: int, kind: int, payload: bytes) -> bool:
        """A frame from its kernel."""
        if kernel is not self.kernel:
            return True  # the last words of one that was replaced
        if self.cell is not None:
            return self.cell.takes(operation, kind, payload)
        if kind in (frames.STDOUT, frames.STDERR):
            self._left_over.append((kind, payload))
            while sum(len(data) for _, data in self._left_over) > _LEFT_OVER:
                self._left_over.popleft()
        return True

    def kernel_ended(self, kernel: Kernel, code: int) -> None:
        """Its kernel is gone; the next cell gets a new one."""
        if kernel is not self.kernel:
            return
        self.kernel = None
        if self.cell is not None:
            self.cell.ended_with_kernel(code, "garbled" if kernel.is_garbled else "")
        else:
            self.lost = True


class Cell:
    """A cell under way: the kernel's frames go up to the engine, and what the engine sends goes down."""

    def __init__(self, agent: Agent, context: Context, operation: int, request: dict[str, Any]) -> None:
        assert context.kernel is not None
        self._agent, self._context, self._operation = agent, context, operation
        self._began = monotonic()
        self._credit = frames.WINDOW
        self._feed: Feed | None = None
        self._input_file = -1
        self._alarms: list[int] = []
        self._is_overdue = False
        self._request: dict[str, Any] = {name: request.get(name) for name in ("code", "env", "language", "input")}
        was_lost, context.lost = context.lost, False
        agent.operations[operation] = self
        started = {"pid": context.kernel.pid, "lost": was_lost}
        agent.send_soon(frames.encode_json(operation, frames.STARTED, started))
        for kind, data in context.left_over():
            self._send(kind, data)
        self._files = _scan(agent)
        if request.get("timeout") is not None:
            # The engine ends it when its time is up, but perhaps nobody there listens to it any more.
            self._alarm(float(request["timeout"]) + _SLACK_S, self._overdue)
        if not request.get("input"):
            self._begin()
        elif "fork" in context.description["how"]:
            reading, writing = processes.pipe()
            self._feed = Feed(agent, operation, writing)
            self._begin((reading,))
        else:
            # A program cannot be given a descriptor later on: it gets a file, when all of the input is there.
            self._request["stdin"] = f"/tmp/.stdin-{operation}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._input_file = os.open(self._request["stdin"], flags, 0o600)

    def receive(self, kind: int, payload: bytes) -> None:
        """Input, credit, an answer to a tool's call, an interrupt, or the wish to be rid of it."""
        kernel = self._context.kernel
        if kind == frames.INPUT:
            self._take_input(payload)
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
            self._context.kernel.signal(kernels.INTERRUPT)

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

    def _take_input(self, data: bytes) -> None:
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
        end["artifacts"] = _new_or_changed(self._files, _scan(self._agent))
        self._agent.finish(self._operation, frames.EXIT, end)


class Contexts:
    """The contexts of one sandbox, by name."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.by_name: dict[str, Context] = {}

    def find(self, name: str) -> Context:
        """The context of this name."""
        if name not in self.by_name:
            raise FileNotFoundError(2, f"there is no context {name}")
        return self.by_name[name]

    def add(self, name: str, description: dict[str, Any]) -> Context:
        """A new context; its kernel starts with its first cell."""
        if name in self.by_name:
            raise FileExistsError(17, f"there is a context {name} already")
        if len(self.by_name) >= MAX_CONTEXTS:
            raise OSError(24, f"a sandbox has at most {MAX_CONTEXTS} contexts")
        cwd = resolve(self._agent, description, "cwd") if description.get("cwd") else self._agent.home
        if not os.path.isdir(cwd):
            raise FileNotFoundError(2, f"there is no directory {cwd} to work in")
        context = self.by_name[name] = Context(self._agent, name, {**description, "cwd": cwd})
        return context

    def remove(self, name: str) -> None:
        """End a context."""
        context = self.by_name.pop(name, None)
        if context is None:
            return  # somebody else has
        context.stop()
        if context.folder is not None:
            self._agent.checkpoints.clear(context.folder)


def start_cell(agent: Agent, operation: int, request: dict[str, Any], tries: int = 10) -> None:
    """Carry out what a CELL frame asks for; a context that is described there and does not exist is made."""
    name = str(request["context"])
    known = agent.contexts.by_name.get(name)
    if known is None and not request.get("create"):
        raise FileNotFoundError(2, f"there is no context {name}")
    context: Context = known or agent.contexts.add(name, request["create"])
    try:
        context.run(operation, request)
    except OSError as problem:
        if known is None:
            del agent.contexts.by_name[name]
        if problem.errno != _EAGAIN or not tries or request.get("input"):
            raise
        # No room for another process: those of a kernel that was ended a moment ago may not be buried yet.
        agent.after(0.1, lambda: _start_again(agent, operation, request, tries - 1))


def _start_again(agent: Agent, operation: int, request: dict[str, Any], tries: int) -> None:
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

    kernel: Kernel = context.kernel
    # A variable may take for ever to be looked at.
    alarms = [
        agent.after(_TELL_S, lambda: kernel.signal(kernels.INTERRUPT)),
        agent.after(_TELL_S + _SLACK_S, kernel.kill),
    ]
    kernel.ask(frames.ASK, {"what": "variables", "digest": bool(request.get("digest"))}, answered)


CALLS = {
    "create context": _create,
    "remove context": _remove,
    "restart context": _restart,
    "variables": _variables,
}


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


def _scan(agent: Agent) -> dict[str, tuple[int, int, int]]:
    """The files in the output folder, and by what a change of one is recognised."""
    found: dict[str, tuple[int, int, int]] = {}
    top = f"{agent.home}/{OUTPUT_FOLDER}"
    ahead = [] if os.path.islink(top) else [top]
    left = _SCANNED
    while ahead and left > 0:
        try:
            with os.scandir(ahead.pop()) as scan:
                for item in scan:
                    left -= 1
                    if left < 0:
                        break
                    if item.is_dir(follow_symlinks=False):
                        ahead.append(item.path)
                    elif item.is_file(follow_symlinks=False):
                        status = item.stat(follow_symlinks=False)
                        found[item.path] = status.st_ino, status.st_ctime_ns, status.st_size
        except OSError:
            continue  # it went away, or is not to be read
    return found


def _new_or_changed(before: dict[str, Any], after: dict[str, tuple[int, int, int]]) -> list[list[Any]]:
    told: list[list[Any]] = []
    room = _TOLD_BYTES
    for path in sorted(after):
        if before.get(path) != after[path]:
            room -= len(dumps(path))
            if len(told) == _TOLD or room < 0:
                break
            told.append([path, after[path][2]])
    return told
