"""FORK: copies the kernel, with all its memory, as a separate process.

A frozen copy waits to be forked again; other copies continue as kernels.  Things that a fork cannot copy are counted
and reported.
"""

from __future__ import annotations

import fcntl
import os
import sys

from cloche.agent import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple

    class Position(NamedTuple):
        """A regular file that was open when the copy was made, and its offset."""

        fd: int
        path: str
        flags: int
        offset: int


is_copying = False  # the current fork is ours, not one of the user's code

_FROZEN = b"checkpoint"  # the name of a frozen copy; memory_shortage.py in the jail spares these longest
_prctl, _PR_SET_NAME = libc.function("prctl", "lz"), 15
_live_name = b""  # the name that a frozen copy had before


def fork() -> bool:
    """Fork a copy; True in it, False in the original.

    The copy is not a child of the original, whose code may wait for any child.
    """
    global is_copying
    is_copying = True
    random = sys.modules.get("random")
    numbers = random.getstate() if random is not None else None
    try:
        middle = os.fork()
        if middle:
            _, status = os.waitpid(middle, 0)
            code = os.waitstatus_to_exitcode(status)
            if code:
                raise OSError(code if code > 0 else 5, "the kernel cannot be copied")
            return False
        try:
            code = 1 if os.fork() else 0
        except OSError as problem:
            os._exit(problem.errno or 5)
        if code:
            os._exit(0)
        if random is not None:
            random.setstate(numbers)  # Python reseeds it after a fork, but a copy must be identical
        return True
    finally:
        is_copying = False


def settle(stdout: int, stderr: int, frozen: bool) -> None:
    """Make the copy a separate process with its own streams."""
    os.setsid()
    for fd, number in ((stdout, 1), (stderr, 2)):
        os.dup2(fd, number)
        os.close(fd)
    global _live_name
    if frozen and not _live_name:
        with open("/proc/self/comm", "rb") as file:
            _live_name = file.read().strip()
        _prctl(_PR_SET_NAME, _FROZEN)
    elif not frozen and _live_name:
        _prctl(_PR_SET_NAME, _live_name)
        _live_name = b""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None  # type: ignore[attr-defined]  # temporary names, however, must differ


def lost(controls: set[int], loop: Any) -> dict[str, Any]:
    """Return what a copy will lack; called in the original, before the fork."""
    threading = sys.modules.get("threading")
    threads = (
        [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()] if threading else []
    )
    own = set(controls)
    if loop is not None and not loop.is_closed():
        own |= {end.fileno() for end in (loop._ssock, loop._csock)}
    sockets = sum(link.startswith("socket:") for fd, link in _descriptors() if fd not in own)
    return {"threads": threads[:100], "children": _children(), "sockets": sockets}


def positions(control: int) -> list[Position]:
    """Return the open regular files and their offsets."""
    from stat import S_ISREG

    found = []
    for fd, path in _descriptors():
        try:
            if fd > 2 and fd != control and S_ISREG(os.fstat(fd).st_mode) and not path.endswith(" (deleted)"):
                found.append((fd, path, fcntl.fcntl(fd, fcntl.F_GETFL), os.lseek(fd, 0, os.SEEK_CUR)))
        except OSError:
            continue
    return found  # type: ignore[return-value]


def reopen(files: list[Position]) -> None:
    """Reopen the files at their offsets: until then the copy shares them with the original."""
    for fd, path, flags, offset in files:
        try:
            # Restoring may have replaced the file.
            if os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)") != path:
                continue  # closed since, and reused for something else
            fresh = os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL) | os.O_CLOEXEC)
            os.lseek(fresh, offset, os.SEEK_SET)
            os.dup2(fresh, fd, os.get_inheritable(fd))
            os.close(fresh)
        except OSError:
            continue  # the file is gone, and the code will find out


def revive(loop: Any) -> None:
    """Give the copy's event loop a selector of its own: it shares the old one with the original."""
    if loop is None or loop.is_closed():
        return
    from selectors import DefaultSelector

    loop._default_executor = None  # its threads do not exist here; the next `to_thread` starts others
    loop._selector.close()
    loop._selector = DefaultSelector()
    for end in (loop._ssock, loop._csock):
        end.close()
    loop._internal_fds -= 1
    loop._make_self_pipe()


def _descriptors() -> list[tuple[int, str]]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def _children() -> int:
    total = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                total += len(file.read().split())
        except OSError:
            continue
    return total
