"""The system calls that Python's `os` lacks, each a function that raises OSError.

Used by the launcher, the nursery and the steps of the jail.  Standard library only, and cheap to import: all of
this is on the way of a cold `cloche run`.
"""

from __future__ import annotations

import os
from _struct import pack

from cloche.agent import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_syscall = libc.function("syscall")
_unshare = libc.function("unshare", "l")
_setns = libc.function("setns", "ll")
_mount = libc.function("mount", "zzzlz")
_umount2 = libc.function("umount2", "zl")
_prctl = libc.function("prctl", "lllll")
_capset = libc.function("capset", "zz")
_sethostname = libc.function("sethostname", "zl")
_setfsuid = libc.function("setfsuid", "l")
_setfsgid = libc.function("setfsgid", "l")

# Namespaces (unshare, setns)
NEWNS, NEWCGROUP, NEWUTS = 0x00020000, 0x02000000, 0x04000000
NEWIPC, NEWUSER, NEWPID, NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000

# Mount flags
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC = 4096, 8192, 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

# New mount API (the same numbers on every architecture, as for all calls since Linux 5.0)
_SYS_open_tree, _SYS_move_mount, _SYS_mount_setattr = 428, 429, 442
_SYS_close_range, _SYS_pidfd_open, _SYS_openat2 = 436, 434, 437
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _AT_RECURSIVE, _AT_EMPTY_PATH = 1, os.O_CLOEXEC, 0x8000, 0x1000
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH, _RESOLVE_NO_SYMLINKS = 4, 0x40, 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
MOUNT_ATTR_IDMAP = 0x00100000

# prctl
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
_PR_CAPBSET_READ = 23
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]


def _check(result: int, call: str, path: str | None = None) -> int:
    if result < 0:
        raise libc.failure(call, path)
    return result


def syscall(number: int, *arguments: object, call: str) -> int:
    """A raw system call."""
    return _check(_syscall(number, *arguments), call)


def unshare(flags: int) -> None:
    """Leave the named namespaces for fresh ones."""
    _check(_unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind a descriptor."""
    _check(_setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    done = _mount(source.encode(), target.encode(), kind.encode(), flags, data.encode())
    _check(done, "mount", target)


def bind(source: str, target: str, flags: int = MS_RDONLY | MS_NOSUID | MS_NODEV) -> None:
    """Show `source` at `target`, by default read-only, without setuid programs and devices."""
    mount(source, target, flags=MS_BIND)
    # A bind ignores other flags: they take a second call.  Those that are already locked on must be given again.
    mount("none", target, flags=MS_REMOUNT | MS_BIND | flags | _locked_flags(target))


def _locked_flags(path: str) -> int:
    # In a user namespace a remount must not drop flags that the host has set on the mount.
    status = os.statvfs(path).f_flag
    return status & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME)


def umount(target: str, flags: int = MNT_DETACH) -> None:
    """umount2(2)."""
    _check(_umount2(target.encode(), flags), "umount", target)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root; the former root shows up at `old`."""
    _check(_syscall(_PIVOT_ROOT, new.encode(), old.encode()), "pivot_root", new)


def open_tree(path: str) -> int:
    """A detached copy of the mount at `path` (with what is mounted below it), held by a descriptor."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    return syscall(_SYS_open_tree, -100, path.encode(), flags, call="open_tree")


def open_real_path(path: str) -> int:
    """A descriptor of a path that must not lead over any link, not even for a moment."""
    how = pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
    return syscall(_SYS_openat2, -100, path.encode(), how, len(how), call="openat2")


def open_real_tree(path: str) -> int:
    """A detached copy of the mount at such a path."""
    fd = open_real_path(path)
    try:
        flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH
        return syscall(_SYS_open_tree, fd, b"", flags, call="open_tree")
    finally:
        os.close(fd)


def move_mount(fd: int, target: str) -> None:
    """Attach a detached mount at `target`."""
    syscall(_SYS_move_mount, fd, b"", -100, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH, call="move_mount")


def move_mount_onto(fd: int, target: int) -> None:
    """Attach a detached mount at the folder behind a descriptor."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    syscall(_SYS_move_mount, fd, b"", target, b"", flags, call="move_mount")


def mount_setattr(fd: int, flags: int, userns_fd: int = 0) -> None:
    """Set attributes on a detached mount and all below it; with MOUNT_ATTR_IDMAP, map its owners."""
    attributes = pack("QQQQ", flags, 0, 0, userns_fd)  # to set, to clear, propagation, namespace
    at = _AT_EMPTY_PATH | _AT_RECURSIVE
    syscall(_SYS_mount_setattr, fd, b"", at, attributes, len(attributes), call="mount_setattr")


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    """prctl(2)."""
    return _check(_prctl(option, first, second, 0, 0), "prctl")


def close_all_but(keep: Sequence[int]) -> None:
    """Close every descriptor that is not in `keep`."""
    low = 0
    for fd in sorted(set(keep)):
        if fd > low:
            syscall(_SYS_close_range, low, fd - 1, 0, call="close_range")
        low = fd + 1
    syscall(_SYS_close_range, low, 0xFFFFFFFF, 0, call="close_range")


def drop_capabilities() -> None:
    """Give up every capability, for good: bounding, ambient, permitted, effective and inheritable."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(last_capability() + 1):
        if _prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise libc.failure("prctl")
    header, none = pack("Ii", 0x20080522, 0), bytes(24)  # version and pid; two sets of three words
    _check(_capset(header, none), "capset")


_last = -1


def last_capability() -> int:
    """The highest capability that this kernel knows."""
    global _last
    if _last < 0:
        beyond = 64
        while beyond - _last > 1:
            middle = (_last + beyond) // 2
            if _prctl(_PR_CAPBSET_READ, middle, 0, 0, 0) < 0:
                beyond = middle
            else:
                _last = middle
    return _last


def sethostname(name: str) -> None:
    """The name that this uts namespace answers to."""
    _check(_sethostname(name.encode(), len(name)), "sethostname")


def pidfd_open(pid: int) -> int:
    """A descriptor that becomes readable when the process ends."""
    return syscall(_SYS_pidfd_open, pid, 0, call="pidfd_open")


def set_file_owner(uid: int) -> None:
    """Let new files belong to this user and the group of the same number; takes fewer calls than a chown for each."""
    _setfsgid(uid)
    _setfsuid(uid)
