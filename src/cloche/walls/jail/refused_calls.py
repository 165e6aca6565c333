"""Answers the system calls that the filter hands to the agent.

The filter hands refused calls to the agent instead of failing them itself.  The agent's answer is always EPERM, and
depends on nothing that the caller could change meanwhile; in addition the agent only notes the call's name, so that an
error can name it.  The one call that is not refused is `sched_getaffinity` (shown_limits.py): the kernel allows it with
any arguments, so the agent may also let the kernel answer.
"""

from __future__ import annotations

import errno
import os
import select
from _struct import Struct
from fcntl import ioctl
from time import monotonic

from cloche.walls.jail import shown_limits, syscalls

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_RECV, _SEND, _ID_VALID
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_NOTICE = Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction pointer, arguments
_ANSWER = Struct("=QqiI")  # id, value, error, flags

_names = {number: name for name, number in syscalls.numbers(os.uname().machine).items()}


class RefusedCalls:
    """The refused calls of one sandbox; `seen` says when each was last tried."""

    def __init__(self, listener: int, cpus: int) -> None:
        self.listener = listener
        self.cpus = cpus  # the CPUs that the sandbox shows
        self.seen: dict[str, float] = {}  # at most one entry per system call

    def answer(self) -> None:
        """Take one call from the listener, which is readable, and let it fail."""
        notice = bytearray(_NOTICE.size)
        try:
            ioctl(self.listener, _RECEIVE, notice)
            ticket, caller, _, number, _, _, *arguments = _NOTICE.unpack(notice)
            name = _names.get(number, "unknown")
            if name == "sched_getaffinity":
                ioctl(self.listener, _IS_VALID, ticket.to_bytes(8, "little"))  # still the process that has called
                size = shown_limits.answer_affinity(caller, arguments, self.cpus)
                ioctl(self.listener, _SEND, _ANSWER.pack(ticket, size, 0, 0 if size else _CONTINUE))
                return
            self.seen[name] = monotonic()
            ioctl(self.listener, _SEND, _ANSWER.pack(ticket, 0, -errno.EPERM, 0))
        except OSError:
            pass  # the caller was killed while it waited

    def answer_all(self) -> None:
        """Answer all calls that wait, if any do."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        while any(events & select.POLLIN for _, events in poll.poll(0)):
            self.answer()
