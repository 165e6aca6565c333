"""The agent's loop: frames in, frames out, and what is under way in between.

One thread, never blocked by anything but its own poll: a program that fills its pipe waits, a stream that is full
makes the programs wait, and the engine is always listened to.  As pid 1 it also buries every orphan of the sandbox.
"""

from __future__ import annotations

import os
import select
from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from time import monotonic

from cloche.agent import ports, signals
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cloche.agent.prestarted import PrestartedCommand

    class OpenOperation(Protocol):
        """Something that the engine has asked for and that is not over."""

        def receive(self, kind: int, payload: bytes) -> None:
            """A further frame for this operation."""

        def cancel(self) -> None:
            """The engine has lost interest, or the conversation is over."""


def _start_call(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    from cloche.agent import files

    agent.be_furnished()
    agent.calls.get(str(request.get("method")), files.start)(agent, operation, request)


def _start_cell(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    agent.be_furnished()
    agent.start_cell(agent, operation, request)


def _no_cells(_agent: Agent, _operation: int, _request: dict[str, Any]) -> None:
    raise OSError(38, "this sandbox was made for a single program, and has no kernels")


_MOMENT_S = 0.001
_LITTLE, _MUCH = 32 << 10, 256 << 10  # bytes to read at once; room for more than a little is dear to get
BACKLOG = 1 << 20  # bytes waiting to be sent, past which programs are no longer read

_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Agent:
    """What one sandbox's engine asks for, carried out."""

    def __init__(self, incoming: int, outgoing: int, environment: dict[str, str], home: str) -> None:
        self.environment = environment
        self.home = home
        self.operations: dict[int, OpenOperation] = {}
        self.refused: dict[str, float] = {}  # system calls that the wall refused, and when last; a wall may fill it
        self.spare: Any = None  # a Python that waits for its program (agent.processes.Spare)
        self.ahead: PrestartedCommand | None = None  # a command that waits to be asked for
        self.furnish: Callable[[], None] | None = None  # makes what follows, when it is first asked for
        self.watching: set[Any] = set()  # the folders that are watched (agent.watch.FolderWatch)
        self.contexts: Any = None
        self.checkpoints: Any = None
        self.calls: dict[str, Callable[[Agent, int, dict[str, Any]], None]] = {}
        self.start_cell: Callable[[Agent, int, dict[str, Any]], None] = _no_cells
        self._incoming, self._outgoing = incoming, outgoing
        self._expected = _LITTLE  # bytes to have room for at the next read
        self._decoder = frames.Decoder(frames.FROM_ENGINE)
        self._queue: deque[bytes | memoryview] = deque()
        self._queued = 0
        self._awaits_room = False  # is there more to be sent than the stream takes?
        self._unhurried: tuple[bytes, int] | None = None  # what waits for company
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._children: dict[int, Callable[[int, Any], None]] = {}
        self._alarms: dict[int, tuple[float, Callable[[], None]]] = {}
        self._alarmed = 0
        # Two polls: `_vital` has the stream and the signals, `_all` has these and the programs' output.  While the
        # stream is clogged only the first is asked, so nobody's output piles up here.
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
        """Speak on this stream from now on; the agent was made before it had one."""
        for poll in (self._vital, self._all):
            poll.unregister(self._incoming)
            poll.register(stream, _READ)
        del self._callbacks[self._incoming]
        self._incoming = self._outgoing = stream
        self._callbacks[stream] = self._receive
        os.set_blocking(stream, False)

    def rehearse(self) -> None:
        """Do now what the first request will do: memory shared with the nursery is copied when it is first written."""
        program = {"argv": ["/bin/true"], "env": self.environment, "cwd": self.home, "input": False}
        for kind, request in ((frames.CALL, {"method": "stat", "path": "/"}), (frames.RUN, program)):
            for operation, _, payload in self._decoder.feed(frames.encode_json(0, kind, request)):
                self._handle(operation, kind, payload)
        while self.operations:
            for fd, _ in self._all.poll():
                if fd in self._callbacks and fd != self._incoming:  # nobody speaks with us yet
                    self._callbacks[fd]()
        self._queue.clear()
        self._queued = 0

    def serve(self) -> None:
        """Work until the engine closes the stream."""
        self._bury()  # children that ended before the signal was listened to
        self._receive()  # the first request came with the stream
        self._flush()
        while self._open:
            poll = self._vital if self._queued > BACKLOG else self._all
            for fd, _ in poll.poll(self._patience()):
                if fd == self._outgoing and fd != self._incoming:
                    self._flush()
                elif fd in self._callbacks:
                    self._callbacks[fd]()
            if self._alarms:
                self._ring()
            if self._queued:
                self._flush()

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves at the end of this turn of the loop."""
        if self._unhurried is not None:
            self._send_unhurried()
        self._queue.append(frame)
        self._queued += len(frame)

    def send_soon(self, frame: bytes) -> None:
        """Queue a frame that may wait a moment for the next: the engine then wakes up once, not twice."""
        if self._unhurried is not None:
            self._send_unhurried()
        self._unhurried = frame, self.after(_MOMENT_S, self._send_unhurried)

    def _send_unhurried(self) -> None:
        if self._unhurried is not None:
            (frame, alarm), self._unhurried = self._unhurried, None
            self.forget_alarm(alarm)
            self.send(frame)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor has something to read."""
        self._callbacks[fd] = callback
        self._all.register(fd, _READ)

    def watch_writable(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor takes more."""
        self._callbacks[fd] = callback
        self._all.register(fd, select.EPOLLOUT | select.EPOLLERR)

    def unwatch(self, fd: int) -> None:
        """No more calls for this descriptor."""
        if self._callbacks.pop(fd, None):
            self._all.unregister(fd)

    def after(self, seconds: float, callback: Callable[[], None]) -> int:
        """Call back once, so much later, unless the number that this returns is given to `forget_alarm` before."""
        self._alarmed += 1
        self._alarms[self._alarmed] = monotonic() + seconds, callback
        return self._alarmed

    def forget_alarm(self, number: int) -> None:
        """It is not needed any more."""
        self._alarms.pop(number, None)

    def adopt(self, pid: int, ended: Callable[[int, Any], None]) -> None:
        """Call `ended(status, usage)` when this child has ended."""
        self._children[pid] = ended

    def await_end(self, pid: int) -> None:
        """Wait for such a child, which has been killed."""
        _, status, usage = os.wait4(pid, 0)
        self._children.pop(pid)(status, usage)

    @property
    def children(self) -> set[int]:
        """All that are waited for so."""
        return set(self._children)

    def can_adopt(self, pid: int) -> bool:
        """Is there a process of this pid that nobody has claimed?"""
        return pid not in self._children and os.path.exists(f"/proc/{pid}")

    def finish(self, operation: int, kind: int, value: dict[str, Any]) -> None:
        """Send the last frame of an operation and forget it."""
        self.operations.pop(operation, None)
        try:
            frame = frames.encode_json(operation, kind, value)
        except (ValueError, RecursionError):  # some of it comes from a kernel, which may say what it likes
            frame = frames.encode_json(operation, frames.FAIL, {"errno": 90, "message": "the answer is too large"})
        self.send(frame)

    def fail(self, operation: int, problem: OSError | ValueError) -> None:
        """End an operation with what went wrong."""
        number = problem.errno if isinstance(problem, OSError) and problem.errno else 22
        text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        self.finish(operation, frames.FAIL, {"errno": number, "message": text})

    def _receive(self) -> None:
        try:
            data = os.read(self._incoming, self._expected)
            self._expected = _LITTLE if len(data) < self._expected else _MUCH
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
        # Imported here: these modules need the loop's types, and the nursery has them loaded long before.
        from cloche.agent import build_steps, files, processes

        starter: Callable[[Agent, int, dict[str, Any]], None]
        if kind == frames.RUN:
            request = frames.decode_json(payload)
            starter = build_steps.start if "before" in request or "beside" in request else processes.start
        elif kind == frames.CALL:
            request = frames.decode_json(payload)
            method = request.get("method")
            starter = (
                files.start if method in files.METHODS else ports.start if method in ports.METHODS else _start_call
            )
        elif kind == frames.CELL:
            starter, request = _start_cell, frames.decode_json(payload)
        else:
            known = self.operations.get(operation)
            if known is not None:  # otherwise it has just ended, and the engine does not know yet
                known.receive(kind, payload)
            return
        if operation in self.operations or len(self.operations) >= frames.MAX_OPERATIONS:
            self.fail(operation, OSError(16, "too much is under way in this sandbox"))
            return
        try:
            starter(self, operation, request)
        except (OSError, ValueError) as problem:
            self.fail(operation, problem)
        except RecursionError:
            self.fail(operation, OSError(36, "folders are nested too deeply"))

    def be_furnished(self) -> None:
        """Have what sessions need, from the first time on that one is asked for."""
        if self.furnish is not None:
            self.furnish()
            self.furnish = None

    def _flush(self) -> None:
        while self._queue:
            batch = [self._queue[i] for i in range(min(len(self._queue), 64))]
            try:
                sent = os.writev(self._outgoing, batch)
            except BlockingIOError:
                self._await_room(True)
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
        self._await_room(False)

    def _await_room(self, wanted: bool) -> None:
        if wanted == self._awaits_room:
            return
        self._awaits_room = wanted
        if self._incoming == self._outgoing:
            events = _READ | (select.EPOLLOUT if wanted else 0)
            self._vital.modify(self._incoming, events)
            self._all.modify(self._incoming, events)
            return
        for poll in (self._vital, self._all):
            poll.register(self._outgoing, select.EPOLLOUT) if wanted else poll.unregister(self._outgoing)

    def _patience(self) -> float | None:
        if not self._alarms:
            return None
        return max(min(when for when, _ in self._alarms.values()) - monotonic(), 0)

    def _ring(self) -> None:
        now = monotonic()
        for number in [number for number, (when, _) in self._alarms.items() if when <= now]:
            _, callback = self._alarms.pop(number, (0.0, lambda: None))
            callback()

    def _signalled(self) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        self._bury()

    def _bury(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not os.WIFEXITED(status) and not os.WIFSIGNALED(status):
                continue  # a child that declared us its tracer (PTRACE_TRACEME) and stopped: it has not ended
            ended = self._children.pop(pid, None)
            if ended is not None:
                ended(status, usage)
