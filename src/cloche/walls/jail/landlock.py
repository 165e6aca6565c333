"""Landlock: file access rules for the programs of a sandbox, which the kernel enforces beside mounts and permissions.

The jail applies it to pid 1 before pid 1 starts anything, so that all processes of a sandbox are in one domain: the
scopes below separate them from the host, not from each other.  A process that enters a sandbox later, without being
started by pid 1, would be outside of the domain and could not be signalled from inside.
"""

from __future__ import annotations

import errno
import os
import stat
from _struct import pack

from cloche.agent import libc
from cloche.walls.jail import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["abi", "restrict"]


def abi() -> int:
    """The Landlock version of the running kernel; 0 if it has no Landlock, or has it switched off."""
    global _abi
    if _abi is None:
        try:
            _abi = linux.syscall(_SYS_create_ruleset, 0, 0, _CREATE_RULESET_VERSION, call="landlock_create_ruleset")
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            _abi = 0
    return _abi


_abi: int | None = None  # read once


def restrict(readable: list[str], writable: list[str | int], devices: Sequence[str] = ()) -> None:
    """Restrict this thread and its children: they read and run files beneath `readable`, do all beneath `writable`.

    Requests to devices (`ioctl`) are allowed beneath `devices` alone, and making devices nowhere.  A path may be a
    single file, or a descriptor of something without a path.  A missing path is an error, and so is a kernel without
    Landlock.  Needs no_new_privs.  Before version 2 of Landlock
    (Linux 5.19) programs cannot move or link files between directories: they get EXDEV, and most then copy.
    """
    version = abi()
    if not version:
        raise OSError(errno.ENOSYS, "landlock: not available on this kernel")
    handled = _handled(version)
    scopes = _SCOPE_ABSTRACT_UNIX_SOCKET | _SCOPE_SIGNAL if version >= 6 else 0
    # TCP is not restricted: servers on the sandbox's loopback must work, and its network namespace has nothing else.
    # Older kernels have a shorter struct, and accept a longer one if the rest is zero.
    attributes = pack("=QQQ", handled, 0, scopes)
    ruleset = linux.syscall(_SYS_create_ruleset, attributes, len(attributes), 0, call="landlock_create_ruleset")
    try:
        for path in readable:
            _allow(ruleset, path, handled & _READ)
        for place in writable:
            _allow(ruleset, place, handled & ~_MAKE_DEVICES & ~_IOCTL_DEV)
        for path in devices:
            _allow(ruleset, path, handled & ~_MAKE_DEVICES)
        linux.syscall(_SYS_restrict_self, ruleset, 0, call="landlock_restrict_self")
    finally:
        os.close(ruleset)


_SYS_create_ruleset, _SYS_add_rule, _SYS_restrict_self = 444, 445, 446
_add_rule = libc.function("syscall", "lllzl")
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_VERSION_1 = (1 << 13) - 1  # the rights above, and removing and making entries of each kind
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_MAKE_DEVICES = _MAKE_CHAR | _MAKE_BLOCK  # restricted, and granted nowhere
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


def _handled(version: int) -> int:
    rights = _VERSION_1
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    if version >= 5:
        rights |= _IOCTL_DEV
    return rights


def _allow(ruleset: int, path: str | int, rights: int) -> None:
    fd = path if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_A_FILE  # the kernel refuses a rule that grants a file rights that only directories have
        rule = pack("=Qi", rights, fd)
        if _add_rule(_SYS_add_rule, ruleset, _RULE_PATH_BENEATH, rule, 0):
            raise libc.failure("landlock_add_rule")
    finally:
        if fd != path:
            os.close(fd)
