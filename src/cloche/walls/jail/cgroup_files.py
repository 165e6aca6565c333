"""Reads and writes control groups by descriptor, because the nursery cannot see them by path."""

from __future__ import annotations

import errno
import os

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SIGKILL = 9  # `signal` imports `enum`, which costs a cold start milliseconds


def exists(name: str, directory: int) -> bool:
    """Return whether the entry exists."""
    return os.access(name, os.F_OK, dir_fd=directory)


def open_directory(path: str, above: int | None = None) -> int | None:
    """Open a directory; None if it does not exist, or this process may not open it."""
    try:
        return os.open(path, DIRECTORY, dir_fd=above)
    except OSError:
        return None


def read(directory: int, name: str) -> bytes:
    """Read a file."""
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def write(directory: int, name: str, value: object, *, optional: bool = False) -> None:
    """Write a value into a file, which may be missing when it is optional."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        if optional:
            return
        raise
    try:
        os.write(fd, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (writing {value})", name) from None
    finally:
        os.close(fd)


def field(text: bytes, name: bytes) -> int:
    """The number after `name` at the beginning of a line; 0 if there is none."""
    start = (b"\n" + text).find(b"\n" + name + b" ")
    if start < 0:
        return 0
    start += len(name) + 1
    end = text.find(b"\n", start)
    return int(text[start : end if end >= 0 else len(text)])


def kill_in(name: str, place: int, version: int) -> None:
    """Kill everything in the group of this name."""
    directory = os.open(name, DIRECTORY, dir_fd=place)
    try:
        kill_all(directory, version)
    finally:
        os.close(directory)


def kill_all(directory: int, version: int) -> None:
    """Kill everything in a group."""
    if version == 2:
        try:
            write(directory, "cgroup.kill", "1")
            return
        except FileNotFoundError:  # before Linux 5.14
            pass
    # With the pids controller, no new processes can start.
    write(directory, "pids.max", 0, optional=True)
    kill_listed(directory, {os.getpid()})


def listed(directory: int) -> set[int]:
    """The processes in a group."""
    return {int(pid) for pid in read(directory, "cgroup.procs").split()}


def kill_listed(directory: int, spared: set[int]) -> bool:
    """Kill the processes of a group, except some; False if new ones kept coming, as they may without a limit."""
    return _signal(directory, _SIGKILL, {0, *spared})


def signal_listed(directory: int, number: int, last: int) -> bool:
    """Send a signal to all processes of a group, the youngest first and `last` at the end; False as above."""
    done = _signal(directory, number, {0, last})
    os.kill(last, number)
    return done


def _signal(directory: int, number: int, seen: set[int]) -> bool:
    for _ in range(100):  # a few rounds outrun a fork bomb; otherwise the caller tries again
        fresh = listed(directory) - seen
        if not fresh:
            return True
        for pid in sorted(fresh, reverse=True):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        seen |= fresh
    return False


def remove(name: str, place: int) -> bool:
    """Remove a group; False while processes in it still die."""
    try:
        os.rmdir(name, dir_fd=place)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
