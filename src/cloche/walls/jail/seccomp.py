"""Loads the system-call filter; filter.py decides which calls it allows."""

from __future__ import annotations

import errno
import os
from _struct import pack

from cloche.agent import libc
from cloche.walls.jail import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ASK = 0x7FC00000  # SECCOMP_RET_USER_NOTIF: the verdict that hands a call to whoever holds the listener
NEW_LISTENER = 8

_SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
_PR_GET_NO_NEW_PRIVS, _SET_MODE_FILTER, _FLAG_TSYNC = 39, 1, 1
_ASKS = pack("=HBBI", 0x06, 0, 0, ASK)  # BPF_RET | BPF_K


_placed: dict[bytes, tuple[Any, bytes]] = {}  # filters where the kernel can read them, each with its struct sock_fprog


def place(program: bytes) -> bytes:
    """Put a filter where the kernel can read it, once for all sandboxes that are forked from here."""
    if program not in _placed:
        instructions = libc.fixed(program)
        _placed[program] = instructions, pack("@HP", len(program) // 8, libc.address(instructions))
    return _placed[program][1]


def load(program: bytes) -> int | None:
    """Put this process and all that it starts under the filter; returns the listener of a filter that asks."""
    if not linux.prctl(_PR_GET_NO_NEW_PRIVS):
        # The kernel insists only where root is missing.  We always do: a setuid program must not inherit the filter.
        raise OSError(errno.EPERM, "seccomp: no_new_privs is not set")
    fprog = place(program)
    if _ASKS in program:
        # The kernel returns a listener or applies the filter to other threads, not both: this process has no threads.
        return linux.syscall(_SECCOMP, _SET_MODE_FILTER, NEW_LISTENER, fprog, call="seccomp")
    outside = linux.syscall(_SECCOMP, _SET_MODE_FILTER, _FLAG_TSYNC, fprog, call="seccomp")
    if outside:
        raise OSError(errno.EBUSY, f"seccomp: thread {outside} has a filter of its own and cannot take ours")
    return None
