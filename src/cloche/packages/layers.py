"""Keeps layers: trees of unpacked packages that never change, each whole or absent, with a manifest of every file.

A store is a private folder of one user, shared by all of that user's processes:

    layers/NAME/tree       read-only, mounted by sandboxes
    layers/NAME/manifest   what the tree must look like
    layers/NAME/uses       locked, shared, by everyone whose sandbox has the tree mounted; holds the size
    making/…               where a layer is made or removed; locked by the process that does so
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import marshal
import os
import re
import stat
from contextlib import contextmanager

from cloche.errors import Gone, Misconfigured, Refused, Unavailable
from cloche.model.plain import Plain
from cloche.packages import trees
from cloche.packages.trees import Changed, Tree, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, Self

__all__ = ["Layer", "LayerStore", "Staging"]

log = logging.getLogger("cloche.packages")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST_BYTES = 10 * 10**9
_PIN = "pin-"  # begins the names of files that keep a layer
_FORMAT = b"cloche layer 1\n"
# The errors of a store that somebody has edited, or that a crash of the machine has damaged.
_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EIO, errno.EUCLEAN)


def _boot() -> str:
    """Return what identifies this start of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.urandom(16).hex()  # each process reads every layer once


_BOOT = _boot()


class Layer(Plain):
    """A tree of unpacked packages; `folder` is its absolute path, to mount read-only."""

    name: str
    ecosystem: str
    folder: str
    size: int
    details: dict[str, Any]

    def use(self) -> int:
        """Return a descriptor that keeps the layer from being removed while it is open, in whichever process.

        `Gone` is raised if the layer was removed in the meantime; find or make it again.
        """
        path = os.path.join(os.path.dirname(self.folder), "uses")
        try:
            uses = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as problem:
            raise self._gone() from problem
        try:
            fcntl.flock(uses, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # The lock may be on a layer that was moved away to be removed before we had it.
            if os.stat(path, follow_symlinks=False).st_ino != os.fstat(uses).st_ino:
                raise FileNotFoundError(path)
            os.utime(uses)  # the least recently used layers are removed first
        except OSError as problem:
            os.close(uses)
            raise self._gone() from problem
        return uses

    def _gone(self) -> Gone:
        return Gone(f"The packages of layer {self.name[:12]} were removed to make room.", hint="Try again.")


class Staging:
    """An empty folder on the store's file system, removed at the end of the block unless a layer was kept from it."""

    def __init__(self, folder: str, held: int) -> None:
        self.folder = folder
        self._held = held  # a lock that ends with this process, so that a sweep knows whose folder is abandoned
        self._is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._is_kept:
                _remove_or_leave(self.folder)
        finally:
            os.close(self._held)


class LayerStore:
    """All layers of a user, in one private folder."""

    def __init__(self, folder: str, most_bytes: int = _MOST_BYTES) -> None:
        self.folder = os.path.realpath(folder)
        self.most_bytes = most_bytes
        self._layers = os.path.join(self.folder, "layers")
        self._making = os.path.join(self.folder, "making")
        for each in (self.folder, self._layers, self._making):
            try:
                os.makedirs(each, 0o700, exist_ok=True)
            except OSError as problem:
                raise Misconfigured(f"The folder {each} for packages cannot be made: {problem.strerror}.") from problem
            _check_private(each)
        self._lock = os.path.join(self.folder, "lock")
        with open(self._lock, "ab"):
            pass  # made now: a removal must work on a full disk

    def find(self, name: str) -> Layer | None:
        """Return a layer whose files were compared with its manifest just now; one that was changed is removed.

        This is done on each call: no cheaper look would be safe, since a change of a file shows in that file alone.
        """
        path = self._path(name)
        try:
            at = os.open(path, _FOLDER)
        except FileNotFoundError:
            return None
        try:
            manifest = _Manifest.read(at)
            tree = os.open("tree", _FOLDER, dir_fd=at)
            try:
                # Nothing is synced when a layer is made.  After a crash of the machine, all bytes are read once.
                is_renewed = trees.verify(tree, manifest.tree, every_byte=manifest.boot != _BOOT)
            finally:
                os.close(tree)
            if is_renewed:
                self._renew(at, manifest)
            return manifest.layer(name, path)
        except (Changed, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno not in _DAMAGE:
                raise
            if self._discard(name, at):
                why = problem if isinstance(problem, Changed) else "its files cannot be read"
                log.warning("The layer %s was removed, because %s; it will be made again.", name[:12], why)
            return None
        finally:
            os.close(at)

    def begin(self) -> Staging:
        """Return a new folder in which a layer can be made, held by this process."""
        while True:
            folder = os.path.join(self._making, os.urandom(8).hex())
            with _full_disk_explained():
                os.mkdir(folder, 0o700)
            held = _hold(folder)
            if held is not None:  # otherwise a sweep came between
                return Staging(folder, held)

    def keep(self, staging: Staging, name: str, ecosystem: str, details: dict[str, Any]) -> Layer:
        """Take over `staging.folder/tree`, which an ended sandbox has written, as the layer of that name.

        If another process kept the same name at the same time, its layer is returned.
        """
        target = self._path(name)
        held = staging._held
        with _full_disk_explained():
            try:
                at = os.open("tree", _FOLDER, dir_fd=held)
            except OSError as problem:
                raise Refused("The packages are refused: their sandbox has left no folder of files.") from problem
            try:
                tree = trees.take_over(at, self.most_bytes)
                for other in os.listdir(held):
                    if other != "tree":
                        _remove_entry(held, other)
                self.make_room(tree.size)
                manifest = _Manifest(_BOOT, ecosystem, tree.size, json.loads(json.dumps(details)), tree)
                _create(held, "uses", str(manifest.size).encode())
                _create(held, "manifest", manifest.encoded())
                # Whoever still had a descriptor of a folder may have added to it while the rest was read.
                trees.verify(at, tree, every_byte=False)
            except Changed as problem:
                raise Refused(f"The packages are refused: {problem}, while they were read.") from problem
            finally:
                os.close(at)
            while True:
                try:
                    os.rename(staging.folder, target)
                    staging._is_kept = True
                    fcntl.flock(held, fcntl.LOCK_UN)
                    return manifest.layer(name, target)
                except OSError as problem:
                    if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                other_layer = self.find(name)
                if other_layer is not None:
                    return other_layer

    def pin(self, name: str, by: str) -> None:
        """Keep a layer, even if nobody uses it, until `unpin` is called with the same `by`."""
        path = os.path.join(self._path(name), f"{_PIN}{by}")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def unpin(self, name: str, by: str) -> None:
        """Let a layer be removed again."""
        try:
            os.unlink(os.path.join(self._path(name), f"{_PIN}{by}"))
        except FileNotFoundError:
            pass  # the layer is gone already

    def pins(self, name: str) -> list[str]:
        """Return the `by` of all pins of a layer."""
        try:
            entries = os.listdir(self._path(name))
        except FileNotFoundError:
            return []
        return [entry.removeprefix(_PIN) for entry in entries if entry.startswith(_PIN)]

    def is_pinned(self, name: str) -> bool:
        """Whether an environment needs the layer."""
        return bool(self.pins(name))

    def remove(self, name: str) -> bool:
        """Remove a layer; return False if it is not there, or a living sandbox or an environment needs it."""
        if self.is_pinned(name):
            return False
        try:
            uses = os.open(os.path.join(self._path(name), "uses"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(uses, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._discard(name, uses)
        except (BlockingIOError, FileNotFoundError):
            return False
        finally:
            os.close(uses)

    def names(self) -> list[str]:
        """Return the names of all layers, unverified."""
        return sorted(os.listdir(self._layers))

    def layers(self) -> list[Layer]:
        """Return all layers, verified."""
        return [layer for name in self.names() if (layer := self.find(name)) is not None]

    def sweep(self) -> None:
        """Remove the leftovers of processes that were killed while they made or removed a layer."""
        for each in os.listdir(self._making):
            folder = os.path.join(self._making, each)
            held = _hold(folder)
            if held is not None:
                try:
                    _remove_or_leave(folder)
                finally:
                    os.close(held)

    def make_room(self, wanted: int) -> None:
        """Remove the least recently used layers that nobody uses, until `wanted` bytes fit into the store."""
        found, taken = [], 0
        for name in self.names():
            try:
                with open(os.path.join(self._path(name), "uses"), "rb") as uses:
                    size = int(uses.read(32) or 0)
                    found.append((os.fstat(uses.fileno()).st_mtime_ns, name, size))
            except (OSError, ValueError):
                continue  # it is being removed, or it is damaged and the next `find` removes it
            taken += size
        for _, name, size in sorted(found):
            if taken + wanted <= self.most_bytes:
                return
            if self.remove(name):
                taken -= size
        if taken + wanted > self.most_bytes:
            raise Refused(
                f"There is no room for {size_text(wanted)} of packages: {size_text(taken)} of "
                f"{size_text(self.most_bytes)} are in use by living sandboxes.",
                hint="Close sandboxes that have packages, or ask the operator for more room.",
            )

    def _path(self, name: str) -> str:
        if not re.fullmatch("[0-9a-f]{16,128}", name):
            raise ValueError(f"{name!r} is no name of a layer")
        return os.path.join(self._layers, name)

    def _discard(self, name: str, part: int) -> bool:
        """Move a layer out of the way, so that nobody finds it, and remove it.

        `part` is the open folder or `uses` file of the layer that is meant; another layer of that name stays.
        """
        path = self._path(name)
        away = os.path.join(self._making, f"removed-{os.urandom(8).hex()}")
        with open(self._lock, "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = _hold(path)
            if held is None:
                return False
            try:
                inode = os.fstat(part).st_ino
                if inode != os.fstat(held).st_ino and inode != os.stat(os.path.join(path, "uses")).st_ino:
                    return False
                os.rename(path, away)
                lock.close()
                _remove_or_leave(away)
                return True
            except FileNotFoundError:
                return False
            finally:
                os.close(held)

    def _renew(self, at: int, manifest: _Manifest) -> None:
        """Write down what a verified layer looks like now."""
        name = f"manifest.{os.urandom(8).hex()}"
        try:
            _create(at, name, manifest.encoded())
            os.rename(name, "manifest", src_dir_fd=at, dst_dir_fd=at)
        except OSError as problem:
            if problem.errno not in _FULL:
                raise
            _remove_entry(at, name)  # the next `find` hashes again


class _Manifest:
    """What a layer is, and what each of its files must look like."""

    def __init__(self, boot: str, ecosystem: str, size: int, details: dict[str, Any], tree: Tree) -> None:
        self.boot, self.ecosystem, self.size, self.details, self.tree = boot, ecosystem, size, details, tree

    @classmethod
    def read(cls, at: int) -> _Manifest:
        file = os.open("manifest", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        with open(file, "rb") as stream:
            data = stream.read()
        start = len(_FORMAT) + 32
        # `marshal` reads three times as fast as JSON; on damaged data it may do anything, hence the checksum.
        if not data.startswith(_FORMAT) or hashlib.sha256(data[start:]).digest() != data[len(_FORMAT) : start]:
            raise Changed("its manifest is damaged")
        boot, ecosystem, size, details, facts, hashes = marshal.loads(memoryview(data)[start:])
        return cls(boot, ecosystem, size, details, Tree(facts, hashes))

    def encoded(self) -> bytes:
        tree = self.tree
        body = marshal.dumps((_BOOT, self.ecosystem, self.size, self.details, tree.facts, tree.hashes))
        return _FORMAT + hashlib.sha256(body).digest() + body

    def layer(self, name: str, path: str) -> Layer:
        return Layer(name, self.ecosystem, os.path.join(path, "tree"), self.size, self.details)


def _check_private(folder: str) -> None:
    status = os.stat(folder, follow_symlinks=False)
    hint = "Choose another folder for packages, or correct its owner and its rights (chmod 700)."
    if not stat.S_ISDIR(status.st_mode):
        raise Misconfigured(f"{folder} is no folder, so packages cannot be kept there.", hint)
    if status.st_uid != os.geteuid():
        raise Misconfigured(f"The folder {folder} belongs to another user, who could change packages in it.", hint)
    if status.st_mode & 0o022:
        raise Misconfigured(f"Other users may write to the folder {folder}, so they could change packages in it.", hint)


def _hold(folder: str) -> int | None:
    """Lock a folder for this process until the descriptor is closed; None if it is gone or another process has it."""
    try:
        held = os.open(folder, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(folder, follow_symlinks=False).st_ino == os.fstat(held).st_ino:
            return held
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def _remove_or_leave(folder: str) -> None:
    """Remove a folder; if a process that still lives adds to it all the time, leave it to the next sweep."""
    try:
        trees.remove(folder)
    except OSError as problem:
        log.warning("The folder %s was not removed: %s.  The next sweep tries again.", folder, problem.strerror)


def _create(at: int, name: str, data: bytes) -> None:
    with open(os.open(name, _NEW, 0o600, dir_fd=at), "wb") as stream:
        stream.write(data)


def _remove_entry(at: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        trees.remove(name, at)


@contextmanager
def _full_disk_explained() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if problem.errno not in _FULL:
            raise
        raise Unavailable(
            "The packages cannot be kept, because the disk that holds packages is full.",
            hint="Free some space on it, then try again.",
        ) from problem
