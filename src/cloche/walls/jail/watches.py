"""The descriptors that a nursery waits for, each with a function to call when there is news."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Watches:
    """Waits for all of them at once."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, callback: Callable[[], None]) -> None:
        self._callbacks[fd] = callback
        self._poll.register(fd, select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR)

    def remove(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def wait(self, seconds: float | None) -> list[int]:
        """Return the descriptors with news."""
        return [fd for fd, _ in self._poll.poll(seconds)]

    def call(self, fd: int) -> None:
        """Call the function of a descriptor, unless it was removed since."""
        callback = self._callbacks.get(fd)
        if callback is not None:
            callback()
