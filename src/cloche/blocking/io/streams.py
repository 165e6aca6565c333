"""Socket streams for plain threads; the twin of `cloche.io.streams`, written by hand."""

from __future__ import annotations

from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, SCM_RIGHTS, SHUT_RDWR, SOL_SOCKET, socket
from _struct import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Sequence


class Stream:
    """A connected socket."""

    def __init__(self, sock: socket) -> None:
        sock.settimeout(None)
        self._socket = sock

    def receive(self, size: int, timeout: float | None = None) -> bytes:
        """The bytes that have arrived, at most `size`; nothing at the end.  TimeoutError when nothing comes."""
        if timeout is not None and not self._readable(timeout):
            raise TimeoutError
        return self._socket.recv(size)

    def readable(self) -> None:
        """Wait until there is something to receive, or the other end has closed it; nothing is read."""
        if self._socket.fileno() >= 0:
            self._readable(None)

    def has_something(self) -> bool:
        """Would a read return at once?"""
        try:
            return self._readable(0)
        except OSError:
            return True  # it is closed: a read would say so

    def _readable(self, timeout: float | None) -> bool:
        # A poll and not settimeout: that would be seen by a thread that sends on the same socket.
        from select import POLLIN, poll

        if self._socket.fileno() < 0:
            raise OSError(9, "it is closed")
        waiting = poll()
        waiting.register(self._socket, POLLIN)
        return bool(waiting.poll(None if timeout is None else max(timeout, 0) * 1000))

    def send(self, data: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        from select import POLLOUT, poll
        from time import monotonic

        deadline = None if timeout is None else monotonic() + timeout
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view, MSG_DONTWAIT | MSG_NOSIGNAL) :]
            except BlockingIOError:
                waiting = poll()
                waiting.register(self._socket, POLLOUT)
                if not waiting.poll(None if deadline is None else max(deadline - monotonic(), 0) * 1000):
                    raise TimeoutError from None

    def send_with(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Send a message with descriptors attached, on a socket that keeps messages apart; never wait."""
        rights = (SOL_SOCKET, SCM_RIGHTS, pack(f"{len(descriptors)}i", *descriptors))
        self._socket.sendmsg([message], [rights], MSG_NOSIGNAL | MSG_DONTWAIT)

    def post(self, data: bytes, sending: LockType) -> None:
        """Send it now if nobody else is sending and there is room: never wait."""
        if sending.acquire(False):
            try:
                self._socket.send(data, MSG_DONTWAIT | MSG_NOSIGNAL)
            except OSError:
                pass  # no room, or nobody there
            finally:
                sending.release()

    def shut(self) -> None:
        """Shut it in both directions; whoever waits for something wakes up."""
        try:
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Close it; nobody may wait on it any more."""
        self._socket.close()


def readable(fd: int, timeout: float | None = None) -> None:
    """Wait until a socket has something to read; TimeoutError when nothing comes."""
    from select import POLLIN, poll

    waiting = poll()
    waiting.register(fd, POLLIN)
    if not waiting.poll(None if timeout is None else max(timeout, 0) * 1000):
        raise TimeoutError


def writable(fd: int) -> None:
    """Wait until a socket takes more."""
    from select import POLLOUT, poll

    waiting = poll()
    waiting.register(fd, POLLOUT)
    waiting.poll()
