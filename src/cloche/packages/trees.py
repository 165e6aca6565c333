"""Takes over a tree of files that a sandbox has written, checks later that nobody changed it, and removes it.

The tree is treated as hostile: it is walked by descriptor, no link is followed, and nothing is opened that could wait.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from signal import SIGURG

from cloche.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["Changed", "Tree", "remove", "size_text", "take_over", "verify"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_ENTRIES = 300_000
_MOST_DEPTH = 64
_MOST_SECONDS = 60.0
_THREADS = 4
_WORTH_A_THREAD = 2**16
_PIECE = 2**20

# Mode, links, owner, size, modification, inode, change.  The first five never differ in a copy that a backup restores.
Facts = tuple[int, int, int, int, int, int, int]
_LASTING = 5


class Changed(Exception):
    """A tree is not as it was when it was taken over."""


class Tree:
    """The files of a tree by folder, with the facts and the SHA-256 of each; None stands for a folder."""

    def __init__(self, facts: dict[str, dict[str, Facts | None]], hashes: dict[str, dict[str, bytes]]) -> None:
        self.facts, self.hashes = facts, hashes

    @property
    def size(self) -> int:
        """Return about how many bytes of the disk the tree takes."""
        files = (each for folder in self.facts.values() for each in folder.values() if each)
        return sum(-(-each[3] // 4096) * 4096 for each in files) + 4096 * len(self.facts)


def take_over(at: int, most_bytes: int) -> Tree:
    """Make the tree below a descriptor ours and read-only, and hash it; refuse anything but files and folders.

    The sandbox that wrote it must have ended.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        taken = _TakeOver(threads, most_bytes)
        taken.folder(at, "", 0)
        hashes = {
            path: {name: found.result() if isinstance(found, Future) else found for name, found in folder.items()}
            for path, folder in taken.hashes.items()
        }
    return Tree(taken.facts, hashes)


class _TakeOver:
    def __init__(self, threads: ThreadPoolExecutor, most_bytes: int) -> None:
        self.facts: dict[str, dict[str, Facts | None]] = {}
        self.hashes: dict[str, dict[str, bytes | Future[bytes]]] = {}
        self._threads = threads
        self._open = threading.BoundedSemaphore(8 * _THREADS)  # so that a big tree does not use up all descriptors
        self._entries, self._bytes, self._most_bytes = 0, 0, most_bytes

    def folder(self, at: int, path: str, depth: int) -> None:
        if depth > _MOST_DEPTH:
            _refuse(path, f"is more than {_MOST_DEPTH} folders deep")
        _own(at, path, 0o555)  # first: nobody else can add an entry from here on
        facts = self.facts[path] = {}
        hashes = self.hashes[path] = {}
        with os.scandir(at) as entries:
            for entry in entries:
                self._count(entry.name, path)
                below = f"{path}/{entry.name}" if path else entry.name
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    facts[entry.name] = None
                    self._descend(at, entry.name, below, depth)
                elif stat.S_ISREG(status.st_mode):
                    facts[entry.name], hashes[entry.name] = self._file(at, entry.name, below, status)
                else:
                    _refuse(below, f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}")

    def _descend(self, at: int, name: str, path: str, depth: int) -> None:
        below = _opened(name, _FOLDER, at, path)
        try:
            self.folder(below, path, depth + 1)
        finally:
            os.close(below)

    def _count(self, name: str, path: str) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise Refused(f"The packages have more than {_MOST_ENTRIES:,} files, which is the limit.")
        try:
            name.encode()
        except UnicodeEncodeError:
            _refuse(f"{path}/{os.fsencode(name)!r}", "has a name that is not UTF-8")
        if not name.isprintable():
            _refuse(f"{path}/{name}", "has a name with control characters")

    def _file(self, at: int, name: str, path: str, listed: os.stat_result) -> tuple[Facts, bytes | Future[bytes]]:
        self._bytes += listed.st_size
        if self._bytes > self._most_bytes:
            raise Refused(f"The packages take more than {size_text(self._most_bytes)}, which is the limit.")
        self._open.acquire()
        try:
            file = _opened(name, _FILE, at, path)
        except BaseException:
            self._open.release()
            raise
        try:
            status = os.fstat(file)
            if (status.st_ino, status.st_dev, status.st_size) != (listed.st_ino, listed.st_dev, listed.st_size):
                _refuse(path, "changed while it was read")
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                _refuse(path, "has a second name (a hard link), through which it could be changed")
            _own(file, path, 0o555 if status.st_mode & 0o111 else 0o444)
            _check_no_writer(file, path)
            facts = _facts(os.fstat(file))
            if status.st_size >= _WORTH_A_THREAD:
                return facts, self._threads.submit(self._hash, file, path, facts)
        except BaseException:
            os.close(file)
            self._open.release()
            raise
        return facts, self._hash(file, path, facts)

    def _hash(self, file: int, path: str, facts: Facts) -> bytes:
        try:
            found = _hash(file)
            if _facts(os.fstat(file)) != facts:
                _refuse(path, "changed while it was read")
            return found
        finally:
            os.close(file)
            self._open.release()


def verify(at: int, tree: Tree, every_byte: bool) -> bool:
    """Compare the tree below a descriptor with what was taken over; raise `Changed` where they differ.

    A file with another inode or time of change, and otherwise the same, is hashed again: a backup restores files so.
    Return whether there were such files; `tree` then has their new facts.  With `every_byte`, all files are hashed.
    """
    return _verify_folder(at, "", tree, every_byte)


def _verify_folder(at: int, path: str, tree: Tree, every_byte: bool) -> bool:
    known = tree.facts[path]
    status = os.fstat(at)
    if stat.S_IMODE(status.st_mode) != 0o555 or status.st_uid != os.geteuid():
        raise Changed(f"the folder {path or '.'} has another owner or other rights")
    names = os.listdir(at)
    if len(names) != len(known) or not known.keys() >= set(names):
        added = next((name for name in names if name not in known), None)
        missing = next((name for name in known if name not in names), None)
        raise Changed(f"the file {path}/{added} is new" if added else f"the file {path}/{missing} is missing")
    folders: list[str] = []
    renewed: dict[str, Facts] = {}
    for name, facts in known.items():
        if facts is None:
            folders.append(name)
            continue
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        # Written out and not `_facts(found)`: every start of a sandbox with packages waits for this loop.
        now = (
            found.st_mode,
            found.st_nlink,
            found.st_uid,
            found.st_size,
            found.st_mtime_ns,
            found.st_ino,
            found.st_ctime_ns,
        )
        if now != facts or every_byte:
            if now[:_LASTING] != facts[:_LASTING]:
                raise Changed(f"the file {path}/{name} has changed")
            renewed[name] = now
    for name, now in renewed.items():
        file = os.open(name, _FILE, dir_fd=at)
        try:
            if _hash(file) != tree.hashes[path][name] or _facts(os.fstat(file)) != now:
                raise Changed(f"the file {path}/{name} has other contents")
        finally:
            os.close(file)
        known[name] = now
    is_renewed = bool(renewed)
    for name in folders:
        below = os.open(name, _FOLDER, dir_fd=at)
        try:
            is_renewed |= _verify_folder(below, f"{path}/{name}" if path else name, tree, every_byte)
        finally:
            os.close(below)
    return is_renewed


def remove(path: str, at: int | None = None) -> None:
    """Remove a folder of ours with all that a sandbox may have put there: deep, read-only or oddly named.

    A process that keeps adding to it cannot hold us up for ever: `TimeoutError` is raised after a minute.
    """
    deadline = time.monotonic() + _MOST_SECONDS
    try:
        top = _writable(path, at)
    except FileNotFoundError:
        return
    try:
        # Folders in folders are moved up, so that no depth uses up descriptors, stack or the length of a path.
        while folders := _remove_files(top):
            for name in folders:
                if time.monotonic() > deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "its removal takes too long")
                below = _writable(name, top)
                try:
                    for inner in _remove_files(below):
                        os.close(_writable(inner, below))
                        # A name that no sandbox can have chosen.
                        os.rename(inner, f"moved-{os.urandom(8).hex()}", src_dir_fd=below, dst_dir_fd=top)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=at)


def _remove_files(at: int) -> list[str]:
    """Remove everything but folders; return the names of these."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(at) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    for name in files:
        os.unlink(name, dir_fd=at)
    return folders


def _writable(name: str, at: int | None) -> int:
    """Open a folder in which we may remove entries, whatever its rights were."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # this very folder, even if its rights forbid to open it
        return os.open(".", _FOLDER, dir_fd=found)
    finally:
        os.close(found)


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def _refuse(path: str, why: str) -> NoReturn:
    shown = path if len(path) <= 200 else f"{path[:100]}…{path[-99:]}"
    if not shown.isprintable():
        shown = ascii(shown)
    raise Refused(f"The packages are refused: {shown} {why}.", hint="Nothing was kept.")


def _opened(name: str, flags: int, at: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO):
            _refuse(path, "changed while it was read")
        if problem.errno == errno.EACCES:
            _refuse(path, "cannot be read")
        raise


def _own(at: int, path: str, mode: int) -> None:
    if os.geteuid() == 0:
        os.fchown(at, 0, 0)
    elif os.fstat(at).st_uid != os.geteuid():
        _refuse(path or "its folder", "belongs to another user")
    os.fchmod(at, mode)  # also clears set-user-ID; after the owner, since a change of owner alters the mode


def _check_no_writer(file: int, path: str) -> None:
    """Refuse a file that a process still has open for writing, or mapped: rights do not stop it any more."""
    # The kernel grants a read lease only where nobody has a file open for writing.  A lease that is broken would send
    # a signal that ends us, so we choose one that is ignored.
    try:
        fcntl.fcntl(file, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as problem:
        if problem.errno == errno.EAGAIN:
            _refuse(path, "is still open for writing")
        if problem.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOLCK):
            raise  # without leases, verification alone finds what such a process writes


def _facts(status: os.stat_result) -> Facts:
    return (
        status.st_mode,
        status.st_nlink,
        status.st_uid,
        status.st_size,
        status.st_mtime_ns,
        status.st_ino,
        status.st_ctime_ns,
    )


def _hash(file: int) -> bytes:
    found = hashlib.sha256()
    while piece := os.read(file, _PIECE):
        found.update(piece)
    return found.digest()


def size_text(count: int) -> str:
    """Write a number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
