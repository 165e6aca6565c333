"""A kernel's end of its control: frames in, frames out, and descriptors that come with them."""

from __future__ import annotations

import os
from _socket import AF_UNIX, CMSG_LEN, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from _thread import RLock

from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 64 << 10  # of a message in one frame


class Channel:
    """The stream between a kernel and its agent; any thread may send, one receives."""

    def __init__(self, fd: int) -> None:
        self._socket = socket(AF_UNIX, SOCK_STREAM, 0, fd)
        self._decoder = frames.Decoder(frames.TO_KERNEL)
        self._ready: list[tuple[int, int, bytes]] = []
        self._lock = RLock()
        self.descriptors: list[int] = []  # that came with frames and nobody has taken yet
        self.operation = 0  # of the cell under way

    def fileno(self) -> int:
        """Its descriptor."""
        return self._socket.fileno()

    def receive(self) -> tuple[int, int, bytes] | None:
        """The next frame (operation, kind, payload); None when the agent is gone."""
        while not self._ready:
            try:
                data, extra, _, _ = self._socket.recvmsg(256 << 10, CMSG_LEN(16))
            except OSError:
                return None
            for level, kind, rights in extra:
                if level == SOL_SOCKET and kind == SCM_RIGHTS:
                    numbers = [int.from_bytes(rights[i : i + 4], "little") for i in range(0, len(rights) // 4 * 4, 4)]
                    for fd in numbers:
                        os.set_inheritable(fd, False)
                    self.descriptors += numbers
            if not data:
                return None
            self._ready += self._decoder.feed(data)
        return self._ready.pop(0)

    def take(self, count: int) -> list[int]:
        """The descriptors that came with the frame just received."""
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def send(self, kind: int, payload: bytes = b"", operation: int | None = None) -> None:
        """Send one frame, whole, for the cell under way unless another operation is named."""
        frame = frames.encode(self.operation if operation is None else operation, kind, payload)
        with self._lock:
            self._socket.sendall(frame)

    def send_json(self, kind: int, value: dict[str, Any], operation: int | None = None) -> None:
        """Send a frame whose payload is JSON."""
        self.send(kind, dumps(value).encode(), operation)

    def send_message(self, message: dict[str, Any]) -> None:
        """Send a message of any length, in pieces that nothing else comes between."""
        data = dumps(message).encode()
        with self._lock:
            for start in range(0, len(data) or 1, PIECE):
                last = start + PIECE >= len(data)
                self.send(frames.DATA, (b"\1" if last else b"\0") + data[start : start + PIECE])

    def write(self, kind: int, data: bytes | memoryview) -> None:
        """Send output, in pieces of a size that frames can have."""
        view = memoryview(data)
        while view:
            self.send(kind, bytes(view[: frames.CHUNK]))
            view = view[frames.CHUNK :]

    def forget_lock(self) -> None:
        """In a forked process: whoever held the lock is not here."""
        self._lock = RLock()

    def close(self) -> None:
        """No more of it."""
        self._socket.close()
