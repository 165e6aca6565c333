"""The agent's loop: receives frames from the engine, starts operations, and sends their results.

The loop has one thread, and blocks only in its own poll.  A program that fills its pipe waits, a full stream makes the
programs wait, and the agent always listens to the engine.  As pid 1, it also reaps every orphan of the sandbox.
"""

from __future__ import annotations

import os
import select
from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from time import monotonic

from cloche.agent import package_links, ports, signals, variables
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cloche.agent.messages import CellRequest
    from cloche.agent.package_requests import PackageRequests
    from cloche.agent.prestarted import PrestartedCommand

    class OpenOperation(Protocol):
        """An operation that the engine has started and that has not ended."""

        def receive(self, kind: int, payload: bytes) -> None:
            """Handle another frame of this operation."""

        def cancel(self) -> None:
            """End the operation: the engine cancelled it, or the connection is closed."""


def _start_call(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    from cloche.agent import files

    agent.ensure_sessions()
    agent.calls.get(str(request.get("method")), files.start)(agent, operation, request)


def _start_cell(agent: Agent, operation: int, request: CellRequest) -> None:
    agent.ensure_sessions()
    agent.start_cell(agent, operation, request)


def _no_cells(_agent: Agent, _operation: int, _request: CellRequest) -> None:
    raise OSError(38, "this sandbox was started for a single program and cannot run sessions")


_STARTERS: dict[object, Callable[[Agent, int, Any], None]] = {
    **dict.fromkeys(ports.METHODS, ports.start),
    **dict.fromkeys(package_links.METHODS, package_links.start),
}
_DELAY_S = 0.001
# Bytes per read; the larger buffer is expensive to allocate, so it is used only when needed.
_SMALL_READ, _LARGE_READ = 32 << 10, 256 << 10
BACKLOG = 1 << 20  # bytes queued for the engine, above which no program output is read

_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Agent:
    """Carries out the requests of one sandbox's engine."""

    def __init__(self, incoming: int, outgoing: int, environment: dict[str, str], home: str) -> None:
        self.environment = environment
        self.home = home
        self.operations: dict[int, OpenOperation] = {}
        # System calls that the wall refused, with the time of the last one; filled by the wall.
        self.refused: dict[str, float] = {}
        self.spare: Any = None  # a forked Python that waits for its program (agent.spare_python.Spare)
        self.package_requests: PackageRequests | None = None
        self.prestarted: PrestartedCommand | None = None  # a command that is stopped until it is requested
        # Sets up `contexts` … `start_cell` when they are first needed.
        self.enable_sessions: Callable[[], None] | None = None
        self.folder_watches: set[Any] = set()  # the active agent.folder_watch.FolderWatch operations
        self.bare_root: int | None = None  # the root without its mounts, where a sandbox has one of its own
        self.contexts: Any = None
        self.checkpoints: Any = None
        self.table_reader: Any = None
        self.calls: dict[str, Callable[[Agent, int, dict[str, Any]], None]] = {}
        self.start_cell: Callable[[Agent, int, CellRequest], None] = _no_cells
        self._incoming, self._outgoing = incoming, outgoing
        self._read_size = _SMALL_READ  # buffer size of the next read
        self._decoder = frames.Decoder(frames.FROM_ENGINE)
        self._queue: deque[bytes | memoryview] = deque()
        self._queued = 0
        self._is_blocked = False  # the stream is full, and frames wait
        self._delayed: tuple[bytes, int] | None = None  # a frame that waits for the next one, and its alarm
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._children: dict[int, Callable[[int, Any], None]] = {}
        self._alarms: dict[int, tuple[float, Callable[[], None]]] = {}
        self._last_alarm = 0
        # Two polls: `_vital` has the stream and the signals, `_all` has these and the programs' output.  While the
        # stream is full, only `_vital` is polled, so that no output piles up here.
        self._vital, self._all = select.epoll(), select.epoll()
        self._open = True
        os.set_blocking(incoming, False)
        os.set_blocking(outgoing, False)
        self._wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signals.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signals.signal(signals.SIGCHLD, lambda *_: None)
        for fd, callback in ((incoming, self._receive), (self._wake, self._signalled)):
            self._callbacks[fd] = callback
            self._vital.register(fd, _READ)
            self._all.register(fd, _READ)

    def connect(self, stream: int) -> None:
        """Use this stream from now on; the agent was created before it had one."""
        for poll in (self._vital, self._all):
            poll.unregister(self._incoming)
            poll.register(stream, _READ)
        del self._callbacks[self._incoming]
        self._incoming = self._outgoing = stream
        self._callbacks[stream] = self._receive
        os.set_blocking(stream, False)

    def rehearse(self) -> None:
        """Handle sample requests, because memory shared with the nursery is copied when it is first written."""
        program = {"argv": ["/bin/true"], "env": {}, "cwd": self.home, "input": False, "artifacts": True}
        variables.difference(self.environment)
        for kind, request in ((frames.CALL, {"method": "stat", "path": "/"}), (frames.RUN, program)):
            for operation, _, payload in self._decoder.feed(frames.encode_json(0, kind, request)):
                self._handle(operation, kind, payload)
        while self.operations:
            for fd, _ in self._all.poll():
                if fd in self._callbacks and fd != self._incoming:  # the stream has no engine yet
                    self._callbacks[fd]()
        self._queue.clear()
        self._queued = 0

    def serve(self) -> None:
        """Serve requests until the engine closes the stream."""
        self._reap()  # children that ended before SIGCHLD was handled
        self._receive()  # the first request arrived together with the stream
        self._flush()
        while self._open:
            poll = self._vital if self._queued > BACKLOG else self._all
            for fd, _ in poll.poll(self._poll_timeout()):
                if fd == self._outgoing and fd != self._incoming:
                    self._flush()
                elif fd in self._callbacks:
                    self._callbacks[fd]()
            if self._alarms:
                self._run_alarms()
            if self._queued:
                self._flush()

    def send(self, frame: bytes) -> None:
        """Queue a frame; it is sent at the end of this turn of the loop."""
        if self._delayed is not None:
            self._send_delayed()
        self._queue.append(frame)
        self._queued += len(frame)

    def send_soon(self, frame: bytes) -> None:
        """Queue a frame that may wait a moment for the next one, so that the engine wakes up once, not twice."""
        if self._delayed is not None:
            self._send_delayed()
        self._delayed = frame, self.after(_DELAY_S, self._send_delayed)

    def _send_delayed(self) -> None:
        if self._delayed is not None:
            (frame, alarm), self._delayed = self._delayed, None
            self.forget_alarm(alarm)
            self.send(frame)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor is readable."""
        self._callbacks[fd] = callback
        self._all.register(fd, _READ)

    def watch_writable(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor is writable."""
        self._callbacks[fd] = callback
        self._all.register(fd, select.EPOLLOUT | select.EPOLLERR)

    def unwatch(self, fd: int) -> None:
        """Stop watching the descriptor."""
        if self._callbacks.pop(fd, None):
            self._all.unregister(fd)

    def after(self, seconds: float, callback: Callable[[], None]) -> int:
        """Call back once after this time; returns a number for `forget_alarm`."""
        self._last_alarm += 1
        self._alarms[self._last_alarm] = monotonic() + seconds, callback
        return self._last_alarm

    def forget_alarm(self, number: int) -> None:
        """Cancel an alarm."""
        self._alarms.pop(number, None)

    def adopt(self, pid: int, ended: Callable[[int, Any], None]) -> None:
        """Call `ended(status, usage)` when this child has ended."""
        self._children[pid] = ended

    def await_end(self, pid: int) -> None:
        """Wait for an adopted child that was just killed."""
        _, status, usage = os.wait4(pid, 0)
        self._children.pop(pid)(status, usage)

    @property
    def children(self) -> set[int]:
        """The pids of all adopted children."""
        return set(self._children)

    def can_adopt(self, pid: int) -> bool:
        """Say whether the process exists and has not been adopted."""
        return pid not in self._children and os.path.exists(f"/proc/{pid}")

    def finish(self, operation: int, kind: int, value: dict[str, Any]) -> None:
        """Send the last frame of an operation and forget the operation."""
        self.operations.pop(operation, None)
        try:
            frame = frames.encode_json(operation, kind, value)
        except (ValueError, RecursionError):  # parts of the value may come from a kernel, which is untrusted
            frame = frames.encode_json(operation, frames.FAIL, {"errno": 90, "message": "the answer is too large"})
        self.send(frame)

    def fail(self, operation: int, problem: OSError | ValueError) -> None:
        """End an operation with a failure."""
        number = problem.errno if isinstance(problem, OSError) and problem.errno else 22
        text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        self.finish(operation, frames.FAIL, {"errno": number, "message": text})

    def _receive(self) -> None:
        try:
            data = os.read(self._incoming, self._read_size)
            self._read_size = _SMALL_READ if len(data) < self._read_size else _LARGE_READ
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._open = False
            return
        for operation, kind, payload in self._decoder.feed(data):
            self._handle(operation, kind, payload)

    def _handle(self, operation: int, kind: int, payload: bytes) -> None:
        # Imported here because these modules need the loop's types.  The nursery has loaded them long before.
        from cloche.agent import build_steps, files, processes

        starter: Callable[[Agent, int, Any], None]
        request: Any
        if kind == frames.RUN:
            request = frames.decode_json(payload)
            starter = build_steps.start if "before" in request or "beside" in request else processes.start
        elif kind == frames.CALL:
            request = frames.decode_json(payload)
            method = request.get("method")
            starter = _STARTERS.get(method) or (files.start if method in files.METHODS else _start_call)
        elif operation == frames.REQUESTS:
            if self.package_requests is not None:
                self.package_requests.receive(payload)
            return
        elif kind == frames.CELL:
            starter, request = _start_cell, frames.decode_json(payload)
        else:
            known = self.operations.get(operation)
            if known is not None:  # otherwise the operation has just ended, and the engine does not know yet
                known.receive(kind, payload)
            return
        if operation in self.operations or len(self.operations) >= frames.MAX_OPERATIONS:
            self.fail(operation, OSError(16, f"a sandbox can run at most {frames.MAX_OPERATIONS} operations at a time"))
            return
        try:
            starter(self, operation, request)
        except (OSError, ValueError) as problem:
            self.fail(operation, problem)
        except RecursionError:
            self.fail(operation, OSError(36, "folders are nested too deeply"))

    def ensure_sessions(self) -> None:
        """Set up contexts and checkpoints, the first time they are needed."""
        if self.enable_sessions is not None:
            self.enable_sessions()
            self.enable_sessions = None

    def _flush(self) -> None:
        while self._queue:
            batch = [self._queue[i] for i in range(min(len(self._queue), 64))]
            try:
                sent = os.writev(self._outgoing, batch)
            except BlockingIOError:
                self._watch_outgoing(True)
                return
            except OSError:
                self._open = False
                return
            self._queued -= sent
            while sent:
                first = self._queue[0]
                if sent < len(first):
                    self._queue[0] = memoryview(first)[sent:]
                    break
                sent -= len(first)
                self._queue.popleft()
        self._watch_outgoing(False)

    def _watch_outgoing(self, wanted: bool) -> None:
        if wanted == self._is_blocked:
            return
        self._is_blocked = wanted
        if self._incoming == self._outgoing:
            events = _READ | (select.EPOLLOUT if wanted else 0)
            self._vital.modify(self._incoming, events)
            self._all.modify(self._incoming, events)
            return
        for poll in (self._vital, self._all):
            poll.register(self._outgoing, select.EPOLLOUT) if wanted else poll.unregister(self._outgoing)

    def _poll_timeout(self) -> float | None:
        if not self._alarms:
            return None
        return max(min(when for when, _ in self._alarms.values()) - monotonic(), 0)

    def _run_alarms(self) -> None:
        now = monotonic()
        for number in [number for number, (when, _) in self._alarms.items() if when <= now]:
            _, callback = self._alarms.pop(number, (0.0, lambda: None))
            callback()

    def _signalled(self) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not os.WIFEXITED(status) and not os.WIFSIGNALED(status):
                continue  # a child that made us its tracer (PTRACE_TRACEME) and stopped: it has not ended
            ended = self._children.pop(pid, None)
            if ended is not None:
                ended(status, usage)
