"""A kernel process as the agent sees it: frames on its control, and output on its descriptors 1 and 2.

Nothing that a kernel sends is trusted.  All of it goes to the kernel's *owner*, its context, which accepts frames as
fast as the engine grants credit; meanwhile the kernel waits.
"""

from __future__ import annotations

import os
import sys
from _collections import deque  # type: ignore[import-not-found]
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket, socketpair
from time import monotonic

from cloche.agent import fresh_kernels, own_packages, process_trees, signals
from cloche.agent.spare_python import gave_way, take_spare
from cloche.agent.spawning import pipe, spawn, widen
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cloche.agent.main import Agent
    from cloche.agent.messages import KernelOptions, KernelStart

    class Owner(Protocol):
        """The context or checkpoint that a kernel belongs to."""

        def accept_frame(self, kernel: KernelProcess, operation: int, kind: int, payload: bytes) -> bool:
            """Accept a frame, or return False if there is no room for it now; call `pump` when there is."""

        def kernel_ended(self, kernel: KernelProcess, code: int) -> None:
            """Note that the process has ended (a negative code is a signal) and all its frames have been accepted."""


_PAUSE_S = 0.001
_PIPE_SIZE = 1 << 20  # large, so that code which prints much need not wait for the agent's loop
_MAX_UNREAD = 8 << 20  # bytes that a kernel may leave unread before the agent kills it
_MAX_IMPORTED, _MAX_NAME = 5000, 200
_MAX_LAST_OUTPUT = 2 << 20  # bytes to read after the kernel's death; processes that it left behind may write forever


class KernelProcess:
    """A kernel process and its streams."""

    def __init__(self, agent: Agent, owner: Owner, pid: int, control: int, stdout: int, stderr: int) -> None:
        self.owner = owner
        self.pid = 0  # a copy that another kernel forked reports its pid later
        self.is_fresh = False  # it has none of the modules that the agent has loaded
        self.imported: set[str] = set()  # installed modules that it has reported
        self.lost: dict[str, Any] = {}  # threads, children and sockets that a fork could not copy
        # Called once, when the kernel has started or failed to.
        self.ready: Callable[[OSError | None], None] | None = None
        self._agent = agent
        self._control, self._socket = control, socket(AF_UNIX, SOCK_STREAM, 0, os.dup(control))
        self._outputs = {stdout: frames.STDOUT, stderr: frames.STDERR}
        self._decoder = frames.Decoder(frames.FROM_KERNEL)
        self._pending: deque[tuple[int, int, bytes | bytearray]] = deque()
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._answers: dict[int, Callable[[dict[str, Any] | OSError], None]] = {}
        self._last_request = 0
        self._last_read, self._paused_outputs = 0.0, set[int]()
        self._is_watching = self._is_sending = False
        self.is_garbled = False  # the kernel sent an invalid frame and was killed
        self._code: int | None = None
        self._closed = False
        for fd in (control, self._socket.fileno(), stdout, stderr):
            os.set_blocking(fd, False)
        widen(stdout, _PIPE_SIZE)
        if pid:
            self._adopt(pid)
        self._watch(True)

    # --- requests to the kernel

    def send(self, operation: int, kind: int, payload: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Send a frame with descriptors, and close them here."""
        self._outbox.append((frames.encode(operation, kind, payload), descriptors))
        self._flush_outbox()

    def send_before_frames(self, data: bytes) -> None:
        """Send what a kernel reads before its first frame."""
        self._outbox.append((data, ()))
        self._flush_outbox()

    def ask(
        self,
        kind: int,
        request: dict[str, Any],
        answered: Callable[[dict[str, Any] | OSError], None],
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Send a request; `answered` gets the REPLY, or an OSError for FAIL."""
        self._last_request = self._last_request % 0xFFFF + 1
        self._answers[self._last_request] = answered
        self.send(self._last_request, kind, dumps(request).encode(), descriptors)

    def fork(self, owner: Owner, request: dict[str, Any]) -> KernelProcess:
        """Let the kernel fork a copy; set the copy's `ready` to learn when it has started."""
        control, child_end = socketpair(AF_UNIX, SOCK_STREAM)
        stdout, out = pipe()
        stderr, err = pipe()
        copy = KernelProcess(self._agent, owner, 0, control.detach(), stdout, stderr)
        copy.is_fresh, copy.imported = self.is_fresh, set(self.imported)

        def answered(answer: dict[str, Any] | OSError) -> None:
            if isinstance(answer, OSError) and not copy.pid:  # the original may end while its answer is on the way
                copy.fail(answer)

        self.ask(frames.FORK, request, answered, (child_end.detach(), out, err))
        return copy

    def signal(self, number: int) -> None:
        """Signal the kernel and the other processes of its group."""
        if self.pid and self._code is None:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def signal_alone(self, number: int) -> None:
        """Signal the kernel, but not the other processes of its group."""
        if self.pid and self._code is None:
            os.kill(self.pid, number)

    def signal_others(self, number: int) -> None:
        """Signal the other processes of the kernel's group."""
        if self.pid and self._code is None:
            process_trees.signal_followers(self.pid, number)

    def kill(self) -> None:
        """Kill the kernel and everything in its session."""
        if self.pid and self._code is None:
            process_trees.end_session(self.pid)
        elif not self.pid:
            self.fail(OSError(4, "the kernel was ended before it started"))

    def fail(self, problem: OSError) -> None:
        """Give up a copy that will never start."""
        if not self._closed:
            self._close()
            self._report_ready(problem)

    # --- frames and output from the kernel

    def pump(self) -> None:
        """Pass pending frames to the owner, as far as it accepts them."""
        remaining = _MAX_LAST_OUTPUT
        while not self._closed:
            while self._pending and not self._closed:
                operation, kind, payload = self._pending[0]
                if not self._take(operation, kind, payload):
                    self._watch(False)
                    return
                self._pending.popleft()
            if self._code is None or self._closed:
                self._watch(not self._closed)
                return
            before = len(self._pending)
            self._read_outputs()
            self._read_control()
            remaining -= sum(len(frame[2]) for frame in self._pending) or 1
            if len(self._pending) == before or remaining < 0:
                self._close()
                self.owner.kernel_ended(self, self._code)

    def _take(self, operation: int, kind: int, payload: bytes) -> bool:
        if kind in (frames.STARTED, frames.EXIT) and b'"imported":["' in payload:
            self._note_imports(payload)
        if kind == frames.STARTED:
            self._started(payload)
            return True
        if kind == frames.SYNC:  # the kernel waits until its earlier frames are handled
            self.send(operation, frames.SYNC, payload[:8])
            return True
        if kind in (frames.REPLY, frames.FAIL):
            answered = self._answers.pop(operation, None)
            if answered is not None:
                answered(_answer(kind, payload))
            return True
        return self.owner.accept_frame(self, operation, kind, payload)

    def _note_imports(self, payload: bytes) -> None:
        try:
            names = frames.decode_json(payload)["imported"]
        except (frames.Garbled, KeyError):
            return
        for name in names if isinstance(names, list) else ():
            if len(self.imported) < _MAX_IMPORTED and isinstance(name, str):
                self.imported.add(name[:_MAX_NAME])

    def has_loaded(self, name: str) -> bool:
        """Say whether a Python kernel has imported this installed module."""
        return name in self.imported or (not self.is_fresh and own_packages.is_installed(sys.modules.get(name)))

    def _started(self, payload: bytes) -> None:
        try:
            fields = frames.decode_json(payload)
            pid, lost = int(fields.get("pid", 0)), fields.get("lost")
        except (frames.Garbled, OverflowError, TypeError, ValueError):
            return
        if not self.pid:
            if pid <= 1 or not self._agent.can_adopt(pid):
                self.fail(OSError(5, "the kernel reported the pid of another process"))
                return
            self._adopt(pid)
        self.lost = lost if isinstance(lost, dict) else {}
        self._report_ready(None)

    def _report_ready(self, problem: OSError | None) -> None:
        ready, self.ready = self.ready, None
        if ready is not None:
            ready(problem)

    def _control_readable(self) -> None:
        self._read_outputs()  # output that was written before a frame was sent comes before the frame
        if not self._read_control() and self._is_watching:
            # The kernel has closed its control, or has become another program (exec): wait for its end.
            self._agent.unwatch(self._control)
            if not self.pid:
                self.fail(OSError(5, "the copy ended before it started"))
        self.pump()

    def _read_control(self) -> bool:
        """Read from the control; False at its end."""
        try:
            data = os.read(self._control, 256 << 10)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        try:
            for frame in self._decoder.feed(data):
                if frame[1] == frames.EXIT:
                    self._read_outputs()  # all output of the cell is in the pipes by now
                if not self._append_to_pending(*frame):
                    self._pending.append(frame)
        except frames.Garbled:
            self.is_garbled = True
            self.kill()
            return False
        return bool(data)

    def _append_to_pending(self, operation: int, kind: int, payload: bytes) -> bool:
        """Append output to the pending frame of the same kind; a frame per line would be slow for everybody."""
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

    def _output_readable(self, fd: int) -> None:
        now = monotonic()
        if now - self._last_read < _PAUSE_S:
            # The code prints line after line: wait a moment and read several lines at once, or each would become a
            # frame.
            self._agent.unwatch(fd)
            self._paused_outputs.add(fd)
            self._agent.after(_PAUSE_S, lambda: self._resume_output(fd))
            return
        self._last_read = now
        self._read_output(fd)
        self.pump()

    def _resume_output(self, fd: int) -> None:
        self._paused_outputs.discard(fd)
        if self._is_watching and fd in self._outputs:
            self._agent.watch(fd, lambda: self._output_readable(fd))

    # --- the kernel's life

    def _adopt(self, pid: int) -> None:
        self.pid = pid
        self._agent.adopt(pid, self._ended)

    def _ended(self, status: int, _usage: Any) -> None:
        self._code = os.waitstatus_to_exitcode(status)
        process_trees.end_session(self.pid)
        self._report_ready(OSError(5, "the kernel ended before it started"))
        for answered in list(self._answers.values()):
            answered(OSError(5, "the kernel ended"))
        self._answers.clear()
        self.pump()

    def _close(self) -> None:
        self._closed = True
        self._watch(False)
        if self._is_sending:
            self._agent.unwatch(self._socket.fileno())
        for _, descriptors in self._outbox:
            for fd in descriptors:
                os.close(fd)
        for fd in (self._control, *self._outputs):
            os.close(fd)
        self._socket.close()

    def _watch(self, wanted: bool) -> None:
        if wanted == self._is_watching:
            return
        self._is_watching = wanted
        if wanted:
            self._agent.watch(self._control, self._control_readable)
            for fd in self._outputs.keys() - self._paused_outputs:
                self._agent.watch(fd, lambda fd=fd: self._output_readable(fd))  # type: ignore[misc]
        else:
            for fd in (self._control, *self._outputs):
                self._agent.unwatch(fd)

    def _flush_outbox(self) -> None:
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
            if sum(len(data) for data, _ in self._outbox) > _MAX_UNREAD:
                self.kill()
            elif not self._is_sending:
                self._is_sending = True
                self._agent.watch_writable(self._socket.fileno(), self._flush_outbox)
            return
        except OSError:
            pass  # the kernel is dying, or has closed its control: its end is noticed elsewhere
        if self._is_sending:
            self._is_sending = False
            self._agent.unwatch(self._socket.fileno())


def start(agent: Agent, owner: Owner, how: KernelStart, order: KernelOptions) -> KernelProcess:
    """Start a kernel: a fork of the warm Python (`{"fork": "python"}`), or a program (`{"argv": […]}`)."""
    if "fork" not in how:
        return _spawned(
            agent, owner, how["argv"], order["cwd"], {**order["env"], "CLOCHE_TOOLS": dumps(order["tools"])}
        )
    if how["fork"] == "python" and fresh_kernels.are_possible() and own_packages.want_a_fresh_kernel():
        environment = fresh_kernels.environment(agent.environment)
        kernel = _spawned(agent, owner, fresh_kernels.command(), "/", environment, fresh_kernels.BLOCKED)
        kernel.is_fresh = True
        kernel.send_before_frames(fresh_kernels.messages(order))
        return kernel
    spare = take_spare(agent)
    spare.send({"kernel": how["fork"], **order})
    os.close(spare.stdin)
    return KernelProcess(agent, owner, spare.pid, spare.order, spare.stdout, spare.stderr)


def _spawned(
    agent: Agent,
    owner: Owner,
    argv: list[str],
    cwd: str,
    environment: dict[str, str],
    blocked_signals: tuple[int, ...] = (),
) -> KernelProcess:
    control, child_end = socketpair(AF_UNIX, SOCK_STREAM)
    stdout, out = pipe()
    stderr, err = pipe()
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        ends = (null, out, err, child_end.fileno())
        try:
            pid = spawn(argv, cwd, environment, ends, blocked_signals)
        except BlockingIOError:  # the process limit is reached
            if not gave_way(agent):
                raise
            pid = spawn(argv, cwd, environment, ends, blocked_signals)
    except BaseException:
        for fd in (control.detach(), stdout, stderr):
            os.close(fd)
        raise
    finally:
        for fd in (null, out, err, child_end.detach()):
            os.close(fd)
    return KernelProcess(agent, owner, pid, control.detach(), stdout, stderr)


def _answer(kind: int, payload: bytes) -> dict[str, Any] | OSError:
    try:
        fields = frames.decode_json(payload)
        if kind == frames.REPLY:
            return fields
        return OSError(int(fields["errno"]), str(fields["message"])[:1000])
    except (frames.Garbled, KeyError, OverflowError, TypeError, ValueError):
        return OSError(5, "the kernel's answer is malformed")


INTERRUPT, KILL = signals.SIGINT, signals.SIGKILL
