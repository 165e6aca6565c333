"""A kernel's end of its control: frames in, frames out, and descriptors that come with them."""

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

PIECE = 64 << 10  # of a message in one frame


class Channel:
    """The stream between a kernel and its agent; any thread may send, and any may wait for what comes."""

    def __init__(self, fd: int) -> None:
        self.operation = 0  # of the cell under way
        self.owes = False  # frames were sent that must be taken before anything is written to a descriptor
        self._asked = self._synced = 0
        self.on_answer: Callable[[bytes], None] = _ignore  # takes the ANSWER frames
        self.attach(fd)

    def attach(self, fd: int) -> None:
        """Speak over this descriptor from now on; in a forked process nothing of the old one is of use."""
        os.set_inheritable(fd, False)
        self._socket = socket(AF_UNIX, SOCK_STREAM, 0, fd)
        # A signal's handler may raise in the midst of sending.  The buffer, in C and larger than any frame, then keeps
        # what has not been sent, and the stream stays whole; a `send` of our own could not know how far it had come.
        self._writer = BufferedWriter(FileIO(fd, "wb", closefd=False), 2 * frames.MAX_PAYLOAD)
        self._decoder = frames.Decoder(frames.TO_KERNEL)
        self._arrived: list[tuple[bytes, list[tuple[int, int, bytes]], int, Any]] = []  # and not yet decoded
        self._ready: list[tuple[int, int, bytes]] = []
        self._ended = False
        self.descriptors: list[int] = []  # that came with frames and nobody has taken yet
        self._waiting: list[Any] = []  # a lock for each that waits
        self._turn = allocate_lock()  # of whoever receives
        self._owner = get_ident()
        self.is_decoding = self.was_interrupted = False  # see `interrupted`
        self.forget_lock()

    def forget_lock(self) -> None:
        """In a forked process: whoever held the locks is not here."""
        self._lock = RLock()
        self._reading = allocate_lock()

    def fileno(self) -> int:
        """Its descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """No more of it."""
        self._socket.close()

    # Receiving

    def receive(self) -> tuple[int, int, bytes] | None:
        """The next frame (operation, kind, payload) that is not an answer; None when the agent is gone."""
        self.wait(lambda: bool(self._ready), self._turn)
        return self._ready.pop(0) if self._ready else None

    def take(self, count: int) -> list[int]:
        """The descriptors that came with the frame just received."""
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def wait(self, has_come: Callable[[], bool], turn: Any) -> None:
        """Read until it has come, or the agent is gone; one thread reads at a time, for all that wait."""
        self._waiting.append(turn)
        try:
            while not has_come() and not self._ended:
                if self._reading.acquire(False):
                    try:
                        self.read()
                    finally:
                        self._reading.release()
                else:
                    turn.acquire(timeout=1)  # `_wake` ends this
        finally:
            self._waiting.remove(turn)
            self._wake()  # somebody else has to read now

    def read(self, flags: int = 0) -> None:
        """Take in what is there; waits for something unless the flags say otherwise."""
        arrived = self._arrived
        if not arrived:
            try:
                # In one step of the interpreter, so that no signal's handler can raise between receiving and keeping.
                arrived.extend(map(self._socket.recvmsg, (256 << 10,), (CMSG_LEN(16),), (flags,)))
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno is None:  # a signal's handler raised, TimeoutError for example
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
        """Take in what is there without waiting, unless another thread is about to."""
        if self._reading.acquire(False):
            try:
                self.read(MSG_DONTWAIT)
            finally:
                self._reading.release()

    def interrupted(self) -> bool:
        """Asked by the handler of SIGINT: may it raise now?  If not, `read` does when it is done."""
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
                except RuntimeError:  # another thread has just done so
                    pass

    # Sending

    def send(self, kind: int, payload: bytes = b"", operation: int | None = None) -> None:
        """Send one frame, whole, for the cell under way unless another operation is named."""
        frame = frames.encode(self.operation if operation is None else operation, kind, payload)
        with self._lock:
            self._writer.write(frame)
            self._writer.flush()

    def send_json(self, kind: int, value: dict[str, Any], operation: int | None = None) -> None:
        """Send a frame whose payload is JSON."""
        self.send(kind, dumps(value).encode(), operation)

    def send_message(self, message: dict[str, Any], *, flush: bool = True) -> None:
        """Send a message of any length, in pieces that nothing else comes between.

        Without `flush` it leaves with the next frame: one step for both ends where another frame follows at once.
        """
        data = dumps(message).encode()
        self.owes = True
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
                    problem = caught  # a signal's handler raised: first the rest, so that no half is left
        if problem is not None:
            raise problem

    def sync(self) -> None:
        """Wait until the agent has taken all that was sent: what is written to a descriptor now comes after it."""
        self._asked += 1
        wanted = self._asked
        self.send(frames.SYNC, wanted.to_bytes(8, "big"))
        self.owes = False
        self.wait(lambda: self._synced >= wanted, allocate_lock())

    def write(self, kind: int, data: bytes | memoryview) -> None:
        """Send output, in pieces of a size that frames can have."""
        self.owes = True
        if len(data) <= frames.CHUNK:
            self.send(kind, bytes(data))
            return
        view = memoryview(data)
        while view:
            self.send(kind, bytes(view[: frames.CHUNK]))
            view = view[frames.CHUNK :]


def _ignore(_payload: bytes) -> None:
    """No call is under way."""
