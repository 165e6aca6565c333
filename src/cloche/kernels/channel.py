"""A kernel's end of its control: sends and receives frames, and receives the descriptors that come with them."""

from __future__ import annotations

import os
from _socket import AF_UNIX, CMSG_LEN, MSG_DONTWAIT, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from _thread import RLock, allocate_lock, get_ident
from io import BufferedWriter, FileIO

from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PIECE = 64 << 10  # bytes of a message in one frame


class Channel:
    """The stream between a kernel and its agent; any thread may send, and any may wait for frames."""

    def __init__(self, fd: int) -> None:
        self.operation = 0  # of the current cell
        # The agent must handle the frames sent so far before anything is written to a descriptor.
        self.needs_sync = False
        self._last_sync = self._synced = 0
        self.on_answer: Callable[[bytes], None] = _ignore  # handles the ANSWER frames
        self.attach(fd)

    def attach(self, fd: int) -> None:
        """Use this descriptor from now on; a forked process cannot use the old one's state."""
        os.set_inheritable(fd, False)
        self._socket = socket(AF_UNIX, SOCK_STREAM, 0, fd)
        # A signal handler may raise in the middle of sending.  The buffer is written in C and is larger than any frame,
        # so it keeps the rest, and the stream stays intact.  A `send` of our own could not know how much was sent.
        self._writer = BufferedWriter(FileIO(fd, "wb", closefd=False), 2 * frames.MAX_PAYLOAD)
        self._decoder = frames.Decoder(frames.TO_KERNEL)
        self._arrived: list[tuple[bytes, list[tuple[int, int, bytes]], int, Any]] = []  # received, but not decoded yet
        self._ready: list[tuple[int, int, bytes]] = []
        self._ended = False
        self.descriptors: list[int] = []  # received with frames, and not taken yet
        self._waiting: list[Any] = []  # one lock per waiting thread
        self._turn = allocate_lock()  # the lock of `receive`
        self._owner = get_ident()
        self.is_decoding = self.was_interrupted = False  # see `interrupted`
        self.forget_lock()

    def forget_lock(self) -> None:
        """Replace the locks in a forked process: the threads that held them do not exist there."""
        self._lock = RLock()
        self._reading = allocate_lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    # Receiving

    def receive(self) -> tuple[int, int, bytes] | None:
        """Return the next frame (operation, kind, payload) that is not an answer; None when the agent is gone."""
        self.wait(lambda: bool(self._ready), self._turn)
        return self._ready.pop(0) if self._ready else None

    def take(self, count: int) -> list[int]:
        """Take descriptors that came with the frame just received."""
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def wait(self, has_come: Callable[[], bool], turn: Any) -> None:
        """Read until `has_come`, or until the agent is gone; one thread at a time reads, for all that wait."""
        self._waiting.append(turn)
        try:
            while not has_come() and not self._ended:
                if self._reading.acquire(False):
                    try:
                        self.read()
                    finally:
                        self._reading.release()
                else:
                    turn.acquire(timeout=1)  # until `_wake` releases it
        finally:
            self._waiting.remove(turn)
            self._wake()  # another thread has to read now

    def read(self, flags: int = 0) -> None:
        """Read what has arrived; waits for something unless the flags say otherwise."""
        arrived = self._arrived
        if not arrived:
            try:
                # In one step of the interpreter, so that no signal handler can raise between receiving and keeping.
                arrived.extend(map(self._socket.recvmsg, (256 << 10,), (CMSG_LEN(16),), (flags,)))
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno is None:  # a signal handler raised, for example TimeoutError
                    raise
                self._ended = True
                return
        self.is_decoding = get_ident() == self._owner
        try:
            self._decode(*arrived.pop(0)[:2])
        except frames.Garbled:
            self._ended = True
        finally:
            self.is_decoding = False
        if self.was_interrupted:
            self.was_interrupted = False
            raise KeyboardInterrupt
        self._wake()

    def read_available(self) -> None:
        """Read what has arrived without waiting, unless another thread is reading."""
        if self._reading.acquire(False):
            try:
                self.read(MSG_DONTWAIT)
            finally:
                self._reading.release()

    def interrupted(self) -> bool:
        """Tell the handler of SIGINT whether it may raise now.  If not, `read` raises when it is done."""
        if self.is_decoding:
            self.was_interrupted = True
        return not self.is_decoding

    def _decode(self, data: bytes, extra: list[tuple[int, int, bytes]]) -> None:
        for level, kind, rights in extra:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                numbers = [int.from_bytes(rights[i : i + 4], "little") for i in range(0, len(rights) // 4 * 4, 4)]
                for fd in numbers:
                    os.set_inheritable(fd, False)
                self.descriptors += numbers
        if not data:
            self._ended = True
        for frame in self._decoder.feed(data):
            if frame[1] == frames.ANSWER:
                self.on_answer(frame[2])
            elif frame[1] == frames.SYNC:
                self._synced = int.from_bytes(frame[2], "big")
            else:
                self._ready.append(frame)

    def _wake(self) -> None:
        for turn in self._waiting:
            if turn.locked():
                try:
                    turn.release()
                except RuntimeError:  # another thread has just released it
                    pass

    # Sending

    def send(self, kind: int, payload: bytes = b"", operation: int | None = None) -> None:
        """Send a complete frame, for the current cell unless another operation is named."""
        frame = frames.encode(self.operation if operation is None else operation, kind, payload)
        with self._lock:
            self._writer.write(frame)
            self._writer.flush()

    def send_json(self, kind: int, value: dict[str, Any], operation: int | None = None) -> None:
        """Send a frame whose payload is JSON."""
        self.send(kind, dumps(value).encode(), operation)

    def send_message(self, message: dict[str, Any], *, flush: bool = True) -> None:
        """Send a message of any length, in consecutive frames.

        Without `flush`, it leaves with the next frame, which saves both ends a step when one follows at once.
        """
        data = dumps(message).encode()
        self.needs_sync = True
        problem: BaseException | None = None
        with self._lock:
            for start in range(0, len(data) or 1, PIECE):
                mark = b"\1" if start + PIECE >= len(data) else b"\0"
                frame = frames.encode(self.operation, frames.DATA, mark + data[start : start + PIECE])
                try:
                    self._writer.write(frame)
                    if flush:
                        self._writer.flush()
                except BaseException as caught:
                    if isinstance(caught, OSError) and caught.errno is not None:
                        raise
                    problem = caught  # a signal handler raised: send the rest first, so that the message is complete
        if problem is not None:
            raise problem

    def sync(self) -> None:
        """Wait until the agent has handled all frames so far; later writes to a descriptor then come after them."""
        self._last_sync += 1
        wanted = self._last_sync
        self.send(frames.SYNC, wanted.to_bytes(8, "big"))
        self.needs_sync = False
        self.wait(lambda: self._synced >= wanted, allocate_lock())

    def write(self, kind: int, data: bytes | memoryview) -> None:
        """Send output, in pieces that fit into frames."""
        self.needs_sync = True
        if len(data) <= frames.CHUNK:
            self.send(kind, bytes(data))
            return
        view = memoryview(data)
        while view:
            self.send(kind, bytes(view[: frames.CHUNK]))
            view = view[frames.CHUNK :]


def _ignore(_payload: bytes) -> None: ...
