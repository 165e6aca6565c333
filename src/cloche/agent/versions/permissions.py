"""Opens files and folders of ours that lack the needed permissions, by adding these for a moment."""

from __future__ import annotations

import errno
import os
import stat as modes

# None of these flags waits (for the other end of a fifo, say) or follows a link.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_DIRECTORY | os.O_CLOEXEC


def open_file(folder: int, name: str) -> int:
    """Open a regular file for reading; its mode stays unchanged."""
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        mode = _allow(folder, name, 0o400)
        fd = os.open(name, _FILE, dir_fd=folder)
        os.fchmod(fd, mode)
    if not modes.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    return fd


def open_folder(folder: int, name: str, need: int) -> tuple[int, int | None]:
    """Open a subfolder; also returns the mode to restore, if permissions had to be added."""
    try:
        return os.open(name, FOLDER, dir_fd=folder), None
    except PermissionError:
        mode = _allow(folder, name, need)
        return os.open(name, FOLDER, dir_fd=folder), mode


def allow_inside(fd: int, need: int) -> int | None:
    """Add permissions to an open folder; returns the mode to restore, if they were missing."""
    mode = modes.S_IMODE(os.fstat(fd).st_mode)
    if mode & need == need:
        return None
    try:
        os.fchmod(fd, mode | need)
    except OSError:
        return None  # not our folder
    return mode


def give_back(fd: int, mode: int | None) -> None:
    """Restore a mode."""
    if mode is not None:
        try:
            os.fchmod(fd, mode)
        except OSError:
            pass


def chmod(folder: int, name: str, mode: int) -> None:
    """Set the mode of anything but a link."""
    try:
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError, NotImplementedError):
        # The C library may need /proc/self/fd for this, which the agent may lack.  So check first.  A program that puts
        # a link there between the two calls could have changed the link's target itself.
        if modes.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link") from None
        os.chmod(name, mode, dir_fd=folder)


def _allow(folder: int, name: str, need: int) -> int:
    mode = modes.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    chmod(folder, name, mode | need)
    return mode
