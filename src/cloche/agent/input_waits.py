"""Notices that a program waits for its standard input, so that a person can be asked for it.

The kernel announces nothing of the kind.  So while a program's input is open and empty, the agent looks for a thread
that is blocked in a system call which reads, or polls, the other end of that pipe (`/proc/PID/task/TID/syscall`).
"""

from __future__ import annotations

import os
from _struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloche.agent.input_writer import InputWriter
    from cloche.agent.main import Agent

_FIRST_LOOK_S, _GROWTH, _LONGEST_PAUSE_S = 0.03, 1.5, 0.4  # a program that only computes must not be slowed down
_MOST_THREADS = 512  # to look at in one turn
_MOST_DESCRIPTORS = 64  # that one call waits for

_X86_64 = {0: "read", 19: "read", 7: "poll", 271: "poll", 23: "select", 270: "select", 232: "epoll", 281: "epoll"}
_AARCH64 = {63: "read", 65: "read", 73: "poll", 72: "select", 22: "epoll"}
_CALLS = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(os.uname().machine, {})
_POLLED = Struct("ihh")  # struct pollfd
_READABLE = 1  # POLLIN and EPOLLIN


class InputWait:
    """Reports once for each piece of input that the program waits for it."""

    def __init__(self, agent: Agent, writer: InputWriter, report: Callable[[bool], bool]) -> None:
        self._agent, self._writer = agent, writer
        self._report = report  # returns False if the report has to be made again later
        self._is_waiting = False
        self._pause_s = _FIRST_LOOK_S
        self._alarm: int | None = agent.after(self._pause_s, self._look)

    def input_came(self) -> None:
        """Start anew after a piece of input, or its end."""
        self.stop()
        if self._is_waiting:
            self._is_waiting = not self._report(False)
        self._pause_s = _FIRST_LOOK_S
        self._alarm = self._agent.after(self._pause_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._alarm is not None:
            self._agent.forget_alarm(self._alarm)
            self._alarm = None

    def _look(self) -> None:
        self._alarm = None
        if self._writer.fd is None:
            return
        if self._writer.is_empty and _has_reader(self._writer.fd) and self._report(True):
            self._is_waiting = True
            return
        self._pause_s = min(self._pause_s * _GROWTH, _LONGEST_PAUSE_S)
        self._alarm = self._agent.after(self._pause_s, self._look)


def _has_reader(pipe: int) -> bool:
    """Return whether a thread in the sandbox is blocked, waiting for data in this pipe."""
    wanted = _identity(os.fstat(pipe))
    count = 0
    for pid in _numbers("/proc"):
        for thread in _numbers(f"/proc/{pid}/task"):
            count += 1
            if count > _MOST_THREADS:
                return False
            for fd in _awaited(pid, thread):
                try:
                    if _identity(os.stat(f"/proc/{pid}/fd/{fd}")) == wanted:
                        return True
                except OSError:
                    pass
    return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _numbers(folder: str) -> Iterator[str]:
    try:
        return (name for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return iter(())


def _awaited(pid: str, thread: str) -> list[int]:
    """Return the descriptors that a thread waits for in a system call."""
    try:
        call, *arguments = _contents(f"/proc/{pid}/task/{thread}/syscall", 200).split()
        first, second = int(arguments[0], 16), int(arguments[1], 16)
        kind = _CALLS.get(int(call))
        if kind == "read":
            return [first]
        if kind == "poll":
            polled = _memory(pid, first, min(second, _MOST_DESCRIPTORS) * _POLLED.size)
            return [fd for fd, events, _ in _POLLED.iter_unpack(polled) if events & _READABLE]
        if kind == "select" and second:
            bits = int.from_bytes(_memory(pid, second, min(first + 7, _MOST_DESCRIPTORS) // 8), "little")
            return [fd for fd in range(bits.bit_length()) if bits >> fd & 1]
        return _in_epoll(pid, first) if kind == "epoll" else []
    except (OSError, ValueError, IndexError, OverflowError):
        return []  # it runs ("running"), has ended, or may not be looked at


def _in_epoll(pid: str, poll: int) -> list[int]:
    """Return the descriptors that an epoll waits for: `tfd:  0 events:  19 …`."""
    found = []
    for line in _contents(f"/proc/{pid}/fdinfo/{poll}", _MOST_DESCRIPTORS * 100).splitlines():
        words = line.split()
        if words[:1] == [b"tfd:"] and int(words[3], 16) & _READABLE:
            found.append(int(words[1]))
    return found


def _contents(path: str, most: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(most) or b""


def _memory(pid: str, address: int, size: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        data = file.read(size) or b""
    if len(data) != size:
        raise ValueError("the memory is not there any more")
    return data
