"""The few primitives that differ between asyncio and plain threads; the hand-written twin of `cloche.engine.io`."""

from __future__ import annotations

from _collections_abc import Callable, Mapping, Sequence
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_RDWR, socket
from _thread import LockType, RLock, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


class Stream:
    """A connected socket."""

    def __init__(self, sock: socket) -> None:
        sock.settimeout(None)
        self._socket = sock

    def receive(self, size: int, timeout: float | None = None) -> bytes:
        """What has arrived, at most `size` bytes; nothing at the end.  TimeoutError when nothing comes."""
        if timeout is not None and not self._readable(timeout):
            raise TimeoutError
        return self._socket.recv(size)

    def readable(self) -> None:
        """Wait until there is something to receive, or it is closed at the other end; take nothing."""
        if self._socket.fileno() >= 0:
            self._readable(None)

    def has_something(self) -> bool:
        """Would a read return at once?"""
        try:
            return self._readable(0)
        except OSError:
            return True  # it is closed: who reads will be told

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
        """Nothing more comes or goes; whoever waits for something wakes up."""
        try:
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Close it; nobody may wait on it any more."""
        self._socket.close()


def writable(fd: int) -> None:
    """Wait until a socket takes more."""
    from select import POLLOUT, poll

    waiting = poll()
    waiting.register(fd, POLLOUT)
    waiting.poll()


Lock = allocate_lock


class Condition(RLock):  # type: ignore[misc]  # it can be inherited from, whatever its description says
    """A condition whose wait can time out.  That of `threading` takes 4 ms to import, a third of a Python's start.

    It is a lock, rather than having one: whoever enters it cannot be interrupted (Ctrl-C, in a notebook say) between
    taking the lock and being inside, which would leave it locked for ever.
    """

    def __init__(self) -> None:
        self._waiting: list[LockType] = []  # one lock for each who waits, held until there is news

    def notify_all(self) -> None:
        """Wake all who wait; for who holds the condition."""
        for news in self._waiting:
            news.release()
        self._waiting.clear()

    def wait_for_change(self, timeout: float | None) -> None:
        """Wait until somebody notifies; TimeoutError when nobody does.  For who holds the condition, as after it."""
        news = allocate_lock()
        news.acquire()
        self._waiting.append(news)
        self.release()
        try:
            told = news.acquire(True, -1 if timeout is None else max(timeout, 0))
        finally:
            self.acquire()
            if news in self._waiting:  # nobody has told us, and nobody need to
                self._waiting.remove(news)
        if not told:
            raise TimeoutError


class Tasks:
    """Things done at once: there is no loop that could do them meanwhile."""

    def start(self, function: Callable[..., None], *args: Any) -> None:
        """Do one."""
        function(*args)

    def has_room(self) -> bool:
        """May another one begin?"""
        return True

    def cancel(self) -> None:
        """All are done."""


def call_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], _timeout: float) -> Any:
    """Call a function of the owner's, of either kind; it takes as long as it takes."""
    from inspect import isawaitable

    value = function(*args, **kwargs)
    if not isawaitable(value):
        return value
    import asyncio

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of these side by side; what each returns."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(jobs) or 1) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]
