"""Remembers which system calls the filter refused, so that an error can name them.

The filter hands refused calls to the agent instead of failing them itself.  The agent's answer is always EPERM, and
depends on nothing that the caller could change meanwhile; in addition the agent only notes the call's name.
"""

from __future__ import annotations

import errno
import os
import select
from _struct import Struct
from fcntl import ioctl
from time import monotonic

from cloche.walls.jail import syscalls

_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND
_NOTICE = Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction pointer, arguments
_ANSWER = Struct("=QqiI")  # id, value, error, flags

_names = {number: name for name, number in syscalls.numbers(os.uname().machine).items()}


class RefusedCalls:
    """The refused calls of one sandbox; `seen` says when each was last tried."""

    def __init__(self, listener: int) -> None:
        self.listener = listener
        self.seen: dict[str, float] = {}  # at most one entry per system call

    def answer(self) -> None:
        """Take one call from the listener, which is readable, and let it fail."""
        notice = bytearray(_NOTICE.size)
        try:
            ioctl(self.listener, _RECEIVE, notice)
            ticket, _, _, number, *_ = _NOTICE.unpack(notice)
            self.seen[_names.get(number, "unknown")] = monotonic()
            ioctl(self.listener, _SEND, _ANSWER.pack(ticket, 0, -errno.EPERM, 0))
        except OSError:
            pass  # the caller was killed while it waited

    def answer_all(self) -> None:
        """Answer all calls that wait, if any do."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        while any(events & select.POLLIN for _, events in poll.poll(0)):
            self.answer()
