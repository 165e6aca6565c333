"""A kernel process, as the agent sees it: frames on its control, and what is written to its descriptors 1 and 2.

Nothing of it is believed.  Whatever it sends belongs to its own context, the kernel's *owner*, which takes frames as
fast as the engine allows; while it takes none, the kernel waits.
"""

from __future__ import annotations

import os
from _collections import deque  # type: ignore[import-not-found]
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket, socketpair
from time import monotonic

from cloche.agent import process_trees, processes, signals
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cloche.agent.main import Agent

    class Owner(Protocol):
        """Whose kernel it is."""

        def takes(self, kernel: KernelProcess, operation: int, kind: int, payload: bytes) -> bool:
            """Take a frame; False when there is no room for it now (`pump` when there is)."""

        def kernel_ended(self, kernel: KernelProcess, code: int) -> None:
            """The process is gone (negative: by that signal), and all that it sent has been taken."""


_REST_S = 0.001
_PIPE_SIZE = 1 << 20  # so that code which prints much need not wait for us to come round
_OUTBOX = 8 << 20  # bytes that a kernel may leave unread before it is given up
_LAST_WORDS = 2 << 20  # bytes that are still read when it is dead: what it left behind may write for ever


class KernelProcess:
    """One kernel process."""

    def __init__(self, agent: Agent, owner: Owner, pid: int, control: int, stdout: int, stderr: int) -> None:
        self.owner = owner
        self.pid = 0  # unknown until it has told, for one that was forked by another kernel
        self.lost: dict[str, Any] = {}  # what a fork could not carry
        self.ready: Callable[[OSError | None], None] | None = None  # called once, when it has started or cannot
        self._agent = agent
        self._control, self._socket = control, socket(AF_UNIX, SOCK_STREAM, 0, os.dup(control))
        self._outputs = {stdout: frames.STDOUT, stderr: frames.STDERR}
        self._decoder = frames.Decoder(frames.FROM_KERNEL)
        self._pending: deque[tuple[int, int, bytes | bytearray]] = deque()
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._answers: dict[int, Callable[[dict[str, Any] | OSError], None]] = {}
        self._asked = 0
        self._last_read, self._resting = 0.0, set[int]()
        self._watching = self._speaking = False
        self.is_garbled = False  # it has sent what is no frame, and was ended for it
        self._code: int | None = None
        self._gone = False
        for fd in (control, self._socket.fileno(), stdout, stderr):
            os.set_blocking(fd, False)
        processes.widen(stdout, _PIPE_SIZE)
        if pid:
            self._adopt(pid)
        self._watch(True)

    # --- what is asked of it

    def send(self, operation: int, kind: int, payload: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Send a frame, with descriptors, which are closed here."""
        self._outbox.append((frames.encode(operation, kind, payload), descriptors))
        self._speak()

    def ask(
        self,
        kind: int,
        request: dict[str, Any],
        answered: Callable[[dict[str, Any] | OSError], None],
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Ask for something that is answered by REPLY or FAIL."""
        self._asked = self._asked % 0xFFFF + 1
        self._answers[self._asked] = answered
        self.send(self._asked, kind, dumps(request).encode(), descriptors)

    def fork(self, owner: Owner, request: dict[str, Any]) -> KernelProcess:
        """A copy of it; set its `ready` to learn when it has started."""
        control, theirs = socketpair(AF_UNIX, SOCK_STREAM)
        stdout, out = processes.pipe()
        stderr, err = processes.pipe()
        copy = KernelProcess(self._agent, owner, 0, control.detach(), stdout, stderr)

        def answered(answer: dict[str, Any] | OSError) -> None:
            if isinstance(answer, OSError) and not copy.pid:  # the original may end while its answer is on the way
                copy.fail(answer)

        self.ask(frames.FORK, request, answered, (theirs.detach(), out, err))
        return copy

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it has started and kept in its group."""
        if self.pid and self._code is None:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def kill(self) -> None:
        """End it, with all that it has started and that is in its session still."""
        if self.pid and self._code is None:
            process_trees.end_session(self.pid)
        elif not self.pid:
            self.fail(OSError(4, "it was ended before it started"))

    def fail(self, problem: OSError) -> None:
        """It will never start."""
        if not self._gone:
            self._close()
            self._tell_ready(problem)

    # --- what comes from it

    def pump(self) -> None:
        """Pass on what has come, as far as its owner takes it."""
        last_words = _LAST_WORDS
        while not self._gone:
            while self._pending and not self._gone:
                operation, kind, payload = self._pending[0]
                if not self._take(operation, kind, payload):
                    self._watch(False)
                    return
                self._pending.popleft()
            if self._code is None or self._gone:
                self._watch(not self._gone)
                return
            before = len(self._pending)
            self._read_outputs()
            self._read_control()
            last_words -= sum(len(frame[2]) for frame in self._pending) or 1
            if len(self._pending) == before or last_words < 0:
                self._close()
                self.owner.kernel_ended(self, self._code)

    def _take(self, operation: int, kind: int, payload: bytes) -> bool:
        if kind == frames.STARTED:
            self._started(payload)
            return True
        if kind == frames.SYNC:  # it waits until all that it has sent before is taken
            self.send(operation, frames.SYNC, payload[:8])
            return True
        if kind in (frames.REPLY, frames.FAIL):
            answered = self._answers.pop(operation, None)
            if answered is not None:
                answered(_answer(kind, payload))
            return True
        return self.owner.takes(self, operation, kind, payload)

    def _started(self, payload: bytes) -> None:
        try:
            told = frames.decode_json(payload)
            pid, lost = int(told.get("pid", 0)), told.get("lost")
        except (frames.Garbled, OverflowError, TypeError, ValueError):
            return
        if not self.pid:
            if pid <= 1 or not self._agent.can_adopt(pid):
                self.fail(OSError(5, "it names a process that is not its own"))
                return
            self._adopt(pid)
        self.lost = lost if isinstance(lost, dict) else {}
        self._tell_ready(None)

    def _tell_ready(self, problem: OSError | None) -> None:
        ready, self.ready = self.ready, None
        if ready is not None:
            ready(problem)

    def _controlled(self) -> None:
        self._read_outputs()  # what was written there before a frame was sent comes before it
        if not self._read_control() and self._watching:
            # It has closed it, or it has become another program (exec): what matters then is how that ends.
            self._agent.unwatch(self._control)
            if not self.pid:
                self.fail(OSError(5, "the copy ended before it started"))
        self.pump()

    def _read_control(self) -> bool:
        """Take what the control has; False at its end."""
        try:
            data = os.read(self._control, 256 << 10)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        try:
            for frame in self._decoder.feed(data):
                if frame[1] == frames.EXIT:
                    self._read_outputs()  # all that the cell has written is there by now
                if not self._joins(*frame):
                    self._pending.append(frame)
        except frames.Garbled:
            self.is_garbled = True
            self.kill()
            return False
        return bool(data)

    def _joins(self, operation: int, kind: int, payload: bytes) -> bool:
        """Is it more of the output that waits already?  Line by line, it would keep everybody busy with frames."""
        if kind not in (frames.STDOUT, frames.STDERR) or not self._pending:
            return False
        before, same, waiting = self._pending[-1]
        if (before, same) != (operation, kind) or len(waiting) + len(payload) > frames.CHUNK:
            return False
        if not isinstance(waiting, bytearray):
            waiting = bytearray(waiting)
            self._pending[-1] = (operation, kind, waiting)
        waiting += payload
        return True

    def _read_outputs(self) -> None:
        for fd in list(self._outputs):
            self._read_output(fd)

    def _read_output(self, fd: int) -> None:
        for _ in range(_PIPE_SIZE // frames.CHUNK):
            try:
                data = os.read(fd, frames.CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._agent.unwatch(fd)
                os.close(fd)
                del self._outputs[fd]
                return
            self._pending.append((0, self._outputs[fd], data))

    def _written(self, fd: int) -> None:
        now = monotonic()
        if now - self._last_read < _REST_S:
            # Somebody prints line after line: let some come together, or each would be a frame for everybody.
            self._agent.unwatch(fd)
            self._resting.add(fd)
            self._agent.after(_REST_S, lambda: self._rested(fd))
            return
        self._last_read = now
        self._read_output(fd)
        self.pump()

    def _rested(self, fd: int) -> None:
        self._resting.discard(fd)
        if self._watching and fd in self._outputs:
            self._agent.watch(fd, lambda: self._written(fd))

    # --- its life

    def _adopt(self, pid: int) -> None:
        self.pid = pid
        self._agent.adopt(pid, self._ended)

    def _ended(self, status: int, _usage: Any) -> None:
        self._code = os.waitstatus_to_exitcode(status)
        process_trees.end_session(self.pid)
        self._tell_ready(OSError(5, "the kernel ended before it started"))
        for answered in list(self._answers.values()):
            answered(OSError(5, "the kernel ended"))
        self._answers.clear()
        self.pump()

    def _close(self) -> None:
        self._gone = True
        self._watch(False)
        if self._speaking:
            self._agent.unwatch(self._socket.fileno())
        for _, descriptors in self._outbox:
            for fd in descriptors:
                os.close(fd)
        for fd in (self._control, *self._outputs):
            os.close(fd)
        self._socket.close()

    def _watch(self, wanted: bool) -> None:
        if wanted == self._watching:
            return
        self._watching = wanted
        if wanted:
            self._agent.watch(self._control, self._controlled)
            for fd in self._outputs.keys() - self._resting:
                self._agent.watch(fd, lambda fd=fd: self._written(fd))  # type: ignore[misc]
        else:
            for fd in (self._control, *self._outputs):
                self._agent.unwatch(fd)

    def _speak(self) -> None:
        try:
            while self._outbox:
                data, descriptors = self._outbox[0]
                if descriptors:
                    rights = b"".join(fd.to_bytes(4, "little") for fd in descriptors)
                    sent = self._socket.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, rights)])
                    for fd in descriptors:
                        os.close(fd)
                else:
                    sent = self._socket.send(data)
                if sent < len(data):
                    self._outbox[0] = data[sent:], ()
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            if sum(len(data) for data, _ in self._outbox) > _OUTBOX:
                self.kill()
            elif not self._speaking:
                self._speaking = True
                self._agent.watch_writable(self._socket.fileno(), self._speak)
            return
        except OSError:
            pass  # it is dying, or has closed it: its end tells
        if self._speaking:
            self._speaking = False
            self._agent.unwatch(self._socket.fileno())


def start(agent: Agent, owner: Owner, how: dict[str, Any], order: dict[str, Any]) -> KernelProcess:
    """Start a kernel: a fork of the warm Python (`{"fork": "python"}`), or a program (`{"argv": […]}`)."""
    if "fork" in how:
        spare = processes.take_spare(agent)
        spare.go({"kernel": how["fork"], **order})
        os.close(spare.stdin)
        return KernelProcess(agent, owner, spare.pid, spare.order, spare.stdout, spare.stderr)
    control, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    stdout, out = processes.pipe()
    stderr, err = processes.pipe()
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        environment = {**order["env"], "CLOCHE_TOOLS": dumps(order["tools"])}
        pid = processes.spawn(how["argv"], order["cwd"], environment, (nothing, out, err, theirs.fileno()))
    except BaseException:
        for fd in (control.detach(), stdout, stderr):
            os.close(fd)
        raise
    finally:
        for fd in (nothing, out, err, theirs.detach()):
            os.close(fd)
    return KernelProcess(agent, owner, pid, control.detach(), stdout, stderr)


def _answer(kind: int, payload: bytes) -> dict[str, Any] | OSError:
    try:
        told = frames.decode_json(payload)
        if kind == frames.REPLY:
            return told
        return OSError(int(told["errno"]), str(told["message"])[:1000])
    except (frames.Garbled, KeyError, OverflowError, TypeError, ValueError):
        return OSError(5, "the kernel's answer makes no sense")


INTERRUPT, KILL = signals.SIGINT, signals.SIGKILL
