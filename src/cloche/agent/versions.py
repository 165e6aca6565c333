"""Versions of a folder's files: taken, compared, restored and copied, inside the wall.

Each call is made in a short-lived child of the agent, one at a time, and keeps nothing but what is in the store:

    objects/<content id>    the contents of files, each once
    versions/<name in hex>  what there was: the ids of its contents, then its folders and its files (marshal)
    index                   inode -> (size, mtime, ctime, content id): what need not be read again

Programs share the tree with us and may change it under our hands.  So everything is reached by descriptor, one folder
at a time (`_Place`), no link is followed, nothing waits, and what goes wrong with one file does not stop the others.
Other file systems mounted in the tree are not part of it.  Sockets are left where they are, but cannot be made again.
"""

from __future__ import annotations

import marshal
import os
import stat as modes
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    # A folder: its parent's number, name, mode, mtime (none: it could not be read, and what is in it is left alone).
    # Its own number is its place in the list.
    Folder = tuple[int, str, int, int | None]
    File = tuple[int, str, int, int, int, str | None]  # its folder's number, name, mode with kind, mtime, size, content
    Tree = tuple[list[Folder], list[File]]
    Below = list[dict[str, int | File]]  # of each folder, by name: a folder's number, or a file
    Index = dict[int, tuple[int, int, int, str]]

MAX_ENTRIES = 100_000  # in one version
MAX_LISTED = 1000  # paths of one kind in an answer
MAX_NAME = 100  # bytes of a version's name
_MAX_PATH = 4096  # characters of a path that is shown; nesting can go deeper
_CHUNK = 256 << 10  # stays in the processor's cache between reading, hashing and writing
_PATIENCE = 16 << 20  # a file up to this size is read again when it changed meanwhile

_NO_ROOM = (12, 28, 122)  # ENOMEM (a memory limit that counts files), ENOSPC, EDQUOT
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COARSE = 5  # CLOCK_REALTIME_COARSE: what the kernel stamps files with
_LOST = 1 << 30  # a descriptor that is never open (-1 would not do: to os.scandir it means the working directory)
_LIVE = "live"  # a version for our own use: not a name in hex


class Versions:
    """The versions of the tree at `top`, kept in the folder `store`: both open, and on one file system.

    `mapped` has the inodes of files that some program has mapped for writing (`mapped()` finds them).  These change
    without a trace in their status, and are always read.
    """

    def __init__(self, top: int, store: int, mapped: frozenset[int] = frozenset()) -> None:
        self._top, self._store, self._mapped = top, store, mapped
        self._device = os.fstat(top).st_dev
        for folder in ("objects", "versions"):
            try:
                os.mkdir(folder, 0o700, dir_fd=store)
            except FileExistsError:
                pass

    def take(self, name: str, most: int = MAX_ENTRIES) -> dict[str, int]:
        """Record the tree as it is, under a name; a version that had it is replaced.

        `unsteady` counts the files that changed while they were read, `unread` the files and folders that could not be:
        restoring leaves them as they are.
        """
        return self._take(self._top, _file_name(name), most)

    def restore(self, name: str) -> dict[str, Any]:
        """Make the tree what it was; `problem` tells the first thing that could not be done, the rest is."""
        return self._apply(self._top, self._load(_file_name(name)))

    def changes(self, name: str) -> dict[str, Any]:
        """What was created, changed and removed since a version: paths (a folder's ends in `/`), and `totals`.

        A change is another content, kind, mode or target; a time alone is none.
        """
        folders, files = self._load(_file_name(name))
        below, index = _below(folders, files), self._load_index()
        found: dict[str, list[str]] = {"created": [], "changed": [], "removed": []}
        totals = dict.fromkeys(found, 0)

        def report(kind: str, parents: list[Folder], parent: int, name: str, is_folder: bool) -> None:
            totals[kind] += 1
            if len(found[kind]) < MAX_LISTED:
                found[kind].append(_path(parents, parent, name) + "/" * is_folder)

        live: list[Folder] = [(0, "", 0, 0)]
        counterparts = [0]  # the number in the version of each live folder, -1 for none
        place = _Place(self._top, 0o500)
        try:
            for count, (parent, entry, status) in enumerate(_walk(place)):
                if count >= MAX_ENTRIES:
                    raise _too_many(MAX_ENTRIES)
                is_folder = modes.S_ISDIR(status.st_mode)
                then = below[counterparts[parent]].pop(entry, None) if counterparts[parent] >= 0 else None
                was_folder = isinstance(then, int)
                if is_folder:
                    live.append((parent, entry, 0, 0))
                    counterparts.append(then if isinstance(then, int) else -1)
                if then is None:
                    report("created", live, parent, entry, is_folder)
                elif is_folder != was_folder:  # what was in a folder that is a file now is reported as removed
                    report("changed", live, parent, entry, is_folder)
                elif isinstance(then, int):
                    if modes.S_IMODE(status.st_mode) != folders[then][2]:
                        report("changed", live, parent, entry, True)
                elif status.st_mode != then[2] or not self._has_content(place.fd, then, status, index):
                    report("changed", live, parent, entry, False)
        finally:
            place.close()
        for parent, left in enumerate(below):
            for entry, then in left.items():
                report("removed", folders, parent, entry, isinstance(then, int))
        return {**{kind: sorted(paths) for kind, paths in found.items()}, "totals": totals}

    def copy(self, name: str | None, to: int) -> dict[str, Any]:
        """Write the tree of a version, or the live one, into an empty folder."""
        if os.listdir(to):
            raise OSError(39, "the folder to copy into is not empty")
        if name is not None:
            return self._apply(to, self._load(_file_name(name)))
        self._take(self._top, _LIVE, MAX_ENTRIES)
        try:
            return self._apply(to, self._load(_LIVE))
        finally:
            self._forget(_LIVE)

    def merge(self, source: int, name: str) -> dict[str, Any]:
        """Record the tree in the folder `source` as a version, and make our tree equal to it."""
        self._take(source, _file_name(name), MAX_ENTRIES)
        return self.restore(name)

    def forget(self, name: str) -> None:
        """Remove a version, and the contents that no other has."""
        self._forget(_file_name(name))

    def size(self) -> int:
        """Bytes that the store takes."""
        total = 0
        for folder in (".", "objects", "versions"):
            fd = os.open(folder, _FOLDER, dir_fd=self._store)
            try:
                with os.scandir(fd) as listing:
                    total += sum(item.stat(follow_symlinks=False).st_blocks * 512 for item in listing)
            finally:
                os.close(fd)
        return total

    # Taking.

    def _take(self, top: int, file_name: str, most: int) -> dict[str, int]:
        status = os.fstat(top)
        is_ours = status.st_dev == self._device  # inodes of another file system say nothing
        taking = _Taking(self._store, self._objects(), self._load_index() if is_ours else {})
        place = _Place(top, 0o500)
        folders: list[Folder] = [(0, "", modes.S_IMODE(status.st_mode), status.st_mtime_ns)]
        files: list[File] = []
        try:
            for parent, name, status in _walk(place):
                if len(folders) + len(files) > most:
                    raise _too_many(most)
                if modes.S_ISDIR(status.st_mode):
                    folders.append((parent, name, modes.S_IMODE(status.st_mode), status.st_mtime_ns))
                    continue
                try:
                    files.append(taking.file(place.fd, parent, name, status))
                except FileNotFoundError:
                    continue  # it went away meanwhile
            if taking.is_short:
                raise OSError(28, "")
            if 0 in place.unread:
                raise OSError(5, "the folder cannot be read")
            for number in place.unread:
                folders[number] = (*folders[number][:3], None)
            replaced = self._save(file_name, (folders, files))
        except BaseException as problem:
            taking.withdraw()
            if isinstance(problem, OSError) and problem.errno in _NO_ROOM:
                raise OSError(28, self._room_wanted(taking.needed, taking.needed_files + 1)) from problem
            raise
        finally:
            place.close()
        if is_ours:
            self._save_index(taking.index, taking.learned)
        if replaced:
            self._sweep()
        return {
            "files": len(files),
            "folders": len(folders) - 1,
            "bytes": sum(file[4] for file in files),
            "added": taking.added,
            "unsteady": taking.unsteady,
            "unread": taking.unread + len(place.unread),
        }

    def _room_wanted(self, size: int, files: int) -> str:
        disk = os.fstatvfs(self._store)
        needed, free = f"{size:,} bytes", f"{disk.f_bavail * disk.f_frsize:,} bytes"
        if disk.f_files:  # else their number is not limited
            needed, free = f"{needed} and {files:,} files", f"{free} and {disk.f_favail:,} files"
        return f"no room for a version of the files: it needs about {needed} more, and there is room for {free}"

    # Restoring.

    def _apply(self, top: int, tree: Tree) -> dict[str, Any]:
        is_ours = os.fstat(top).st_dev == self._device
        index = self._load_index() if is_ours else {}
        below = _below(*tree)
        restoring = _Restoring(self, index)
        restoring.run(top, tree[0], below)
        if restoring.no_room:  # what was removed since may have made some; and now what is in the way goes first
            restoring.frugal = True
            restoring.run(top, tree[0], below)
        if is_ours:
            self._save_index(index, restoring.learned)
        return {
            "written": restoring.written,
            "removed": restoring.removed,
            "unchanged": restoring.unchanged,
            "bytes": restoring.bytes,
            "problem": restoring.problem,
        }

    def _has_content(self, folder: int, file: File, status: os.stat_result, index: Index) -> bool:
        """Whether a file of the same kind is what it was, but for mode and time."""
        _, name, mode, _, size, content = file
        if modes.S_IFMT(status.st_mode) != modes.S_IFMT(mode):
            return False
        if content is None:
            return True
        try:
            if modes.S_ISLNK(mode):
                return os.readlink(name, dir_fd=folder) == content
            if status.st_size != size:
                return False
            known = index.get(status.st_ino)
            if known is not None and known[:3] == _signature(status):
                return known[3] == content
            theirs = _open_file(folder, name)
        except OSError:
            return False
        try:
            mine = self._open_object(content)
            try:
                return _equal(mine, theirs, size)
            finally:
                os.close(mine)
        finally:
            os.close(theirs)

    # The store.

    def _open_object(self, content: str) -> int:
        return os.open(f"objects/{content}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._store)

    def _objects(self) -> set[str]:
        fd = os.open("objects", _FOLDER, dir_fd=self._store)
        try:
            return set(os.listdir(fd))
        finally:
            os.close(fd)

    def _read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._store)
        with open(fd, "rb", buffering=0) as file:
            return file.readall()

    def _replace(self, path: str, data: bytes) -> None:
        fd = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=self._store)
        try:
            try:
                _write_at(fd, memoryview(data), 0)
            finally:
                os.close(fd)
        except OSError:
            os.unlink("new", dir_fd=self._store)
            raise
        os.rename("new", path, src_dir_fd=self._store, dst_dir_fd=self._store)

    def _load(self, file_name: str) -> Tree:
        try:
            data = self._read(f"versions/{file_name}")
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no version of that name") from None
        tree: Tree = marshal.loads(memoryview(data)[8 + int.from_bytes(data[:8], "big") :])
        return tree

    def _save(self, file_name: str, tree: Tree) -> bool:
        """Record a version, and tell whether there was one of that name."""
        ids = marshal.dumps({file[5] for file in tree[1] if file[5] is not None and modes.S_ISREG(file[2])})
        try:
            os.stat(f"versions/{file_name}", dir_fd=self._store)
            existed = True
        except FileNotFoundError:
            existed = False
        self._replace(f"versions/{file_name}", len(ids).to_bytes(8, "big") + ids + marshal.dumps(tree))
        return existed

    def _forget(self, file_name: str) -> None:
        try:
            os.unlink(f"versions/{file_name}", dir_fd=self._store)
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no version of that name") from None
        self._sweep()

    def _sweep(self) -> None:
        used: set[str] = set()
        fd = os.open("versions", _FOLDER, dir_fd=self._store)
        try:
            for version in os.listdir(fd):
                used |= marshal.loads(memoryview(self._read(f"versions/{version}"))[8:])
        finally:
            os.close(fd)
        for content in self._objects() - used:
            os.unlink(f"objects/{content}", dir_fd=self._store)

    def _load_index(self) -> Index:
        try:
            index: Index = marshal.loads(self._read("index"))
        except FileNotFoundError:
            return {}
        for inode in self._mapped:
            index.pop(inode, None)
        return index

    def _save_index(self, old: Index, learned: Index) -> None:
        # What is known of other inodes stays a while: they may be of a copy that will be merged.
        index = {**old, **learned} if len(old) < 2 * len(learned) + 1000 else learned
        for inode in self._mapped:  # also once they are no longer
            index.pop(inode, None)
        if index == old and not self._mapped:
            return
        try:
            self._replace("index", marshal.dumps(index))
        except OSError:  # no room: the next time all is read
            try:
                os.unlink("index", dir_fd=self._store)
            except FileNotFoundError:
                pass


def mapped(top: int) -> frozenset[int]:
    """The inodes of the files, on a folder's file system, that programs have mapped for writing: for `Versions`.

    In memory a page that was read before can be written without the kernel noticing; on tmpfs it never does.  It
    takes about a millisecond for a large program.
    """
    device = os.fstat(top).st_dev
    mark = b"%02x:%02x" % (os.major(device), os.minor(device))
    found = set()
    for pid in os.listdir("/proc"):
        if not pid.isdecimal():
            continue
        try:
            with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
                lines = file.readall().split(b"\n")
        except OSError:
            continue  # it has ended, or is not to be looked into
        for line in lines:
            if b"w" in line[:60] and mark in line:
                _, permissions, _, at, inode = line.split(None, 5)[:5]
                if at == mark and permissions[1:2] == b"w" and permissions[3:4] == b"s":
                    found.add(int(inode))
    return frozenset(found)


class _Taking:
    """Contents on their way into the store, for one version."""

    def __init__(self, store: int, have: set[str], index: Index) -> None:
        self.index = index
        self.learned: Index = {}
        self.added = self.unsteady = self.unread = 0  # bytes; files
        self.is_short = False  # of room: from then on it is only added up what is needed
        self.needed = self.needed_files = 0  # bytes and files without room
        self._store, self._have = store, have
        self._made: dict[str, int] = {}  # contents that were new, and their bytes

    def file(self, folder: int, parent: int, name: str, status: os.stat_result) -> File:
        """What to record of something that is not a folder; a regular file's content is in the store afterwards."""
        mode, mtime, size = status.st_mode, status.st_mtime_ns, status.st_size
        if modes.S_ISLNK(mode):
            return (parent, name, mode, mtime, size, os.readlink(name, dir_fd=folder))
        if not modes.S_ISREG(mode):
            return (parent, name, mode, mtime, 0, None)
        inode = status.st_ino
        known = self.learned.get(inode) or self.index.get(inode)
        if known is not None and known[3] in self._have and known[:3] == _signature(status):
            self.learned[inode] = known
            return (parent, name, mode, mtime, size, known[3])
        if self.is_short:
            return self._without_room(parent, name, status)
        try:
            return self._read(folder, parent, name)
        except FileNotFoundError:
            raise
        except OSError as problem:
            if problem.errno in _NO_ROOM:
                return self._without_room(parent, name, status)
            self.unread += 1
            return (parent, name, mode, mtime, size, None)

    def _without_room(self, parent: int, name: str, status: os.stat_result) -> File:
        self.is_short = True
        self.needed += min(status.st_size, status.st_blocks * 512)
        self.needed_files += 1
        return (parent, name, status.st_mode, status.st_mtime_ns, status.st_size, None)

    def withdraw(self) -> None:
        """Take back what was stored, counting it as needed."""
        self.needed += self.added
        self.needed_files += len(self._made)
        for content in self._made:
            os.unlink(f"objects/{content}", dir_fd=self._store)
        try:
            os.unlink("new", dir_fd=self._store)
        except FileNotFoundError:
            pass

    def _read(self, folder: int, parent: int, name: str) -> File:
        fd = _open_file(folder, name)
        try:
            for attempt in range(3):
                # A write after this moment gets a stamp not before it; so an older file cannot change unnoticed.
                now = time.clock_gettime_ns(_COARSE)
                before = os.fstat(fd)
                made = len(self._made)
                content, size = (self._keep_small if before.st_size <= _CHUNK else self._keep_large)(fd, before.st_size)
                if _signature(before) == _signature(os.fstat(fd)):
                    if before.st_mtime_ns < now:
                        self.learned[before.st_ino] = (*_signature(before), content)
                    break
                if attempt == 2 or size > _PATIENCE:
                    self.unsteady += 1
                    break
                self._unmake(made)
            return (parent, name, before.st_mode, before.st_mtime_ns, size, content)
        finally:
            os.close(fd)

    def _keep_small(self, fd: int, size: int) -> tuple[str, int]:
        data = os.pread(fd, size, 0)
        content = _hasher(0)(data).hexdigest()[:64]
        if content not in self._have:
            target = self._open_new()
            try:
                _write_at(target, memoryview(data), 0)
            finally:
                os.close(target)
            self._made_new(content, len(data))
        return content, len(data)

    def _keep_large(self, fd: int, size: int) -> tuple[str, int]:
        # Hashed is what was read, and written is what was hashed: whatever happens to the file, the id is right.
        hasher, holes = _hasher(size)(), _hasher(0)()
        position = stored = 0
        problem = None
        target = self._open_new()
        try:
            for offset, data in _pieces(fd, size):
                hasher.update(data)
                if offset != position:
                    holes.update(b"%d-%d " % (position, offset))
                position = offset + len(data)
                stored += len(data)
                if problem is None:
                    try:
                        _write_at(target, data, offset)
                    except OSError as no_room:  # go on: we may have this content
                        problem = no_room
                        os.ftruncate(target, 0)
            if position != size:
                holes.update(b"%d-%d " % (position, size))
            content = _hasher(0)(hasher.digest() + holes.digest()).hexdigest()[:64]
            if content not in self._have:
                if problem is not None:
                    raise problem
                os.ftruncate(target, size)
                self._made_new(content, stored)
        finally:
            os.close(target)
        return content, size

    def _open_new(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open("new", flags, 0o600, dir_fd=self._store)

    def _made_new(self, content: str, size: int) -> None:
        os.rename("new", f"objects/{content}", src_dir_fd=self._store, dst_dir_fd=self._store)
        self._have.add(content)
        self._made[content] = size
        self.added += size

    def _unmake(self, count: int) -> None:
        """Take back what was stored last, but for that many contents."""
        while len(self._made) > count:
            content, size = self._made.popitem()
            self.added -= size
            self._have.discard(content)
            os.unlink(f"objects/{content}", dir_fd=self._store)


class _Restoring:
    """A tree on its way to what it was."""

    def __init__(self, versions: Versions, index: Index) -> None:
        self.frugal = False  # remove what is in the way before writing, instead of renaming over it
        self.learned: Index = {}
        self.written = self.removed = self.unchanged = self.bytes = 0
        self.problem: str | None = None
        self.no_room = False
        self._versions, self._index = versions, index

    def run(self, top: int, folders: list[Folder], below: Below) -> None:
        """Go through the tree once: remove, write, and set modes and times on the way back up."""
        self.problem, self.no_room = None, False
        self.unchanged = -self.written  # what an earlier pass has written is right in this one
        place = _Place(top, 0o700)
        try:
            ahead = [(0, self._arrange(place, below[0]))]
            while True:
                current, subfolders = ahead[-1]
                if subfolders:
                    number, name = subfolders.pop()
                    if folders[number][3] is None:
                        continue
                    try:
                        place.down(name)
                    except OSError as problem:
                        self._failed(name, problem)
                    else:
                        ahead.append((number, self._arrange(place, below[number])))
                    continue
                _, name, mode, mtime = folders[current]
                try:
                    if mtime is not None and os.fstat(place.fd).st_mtime_ns != mtime:
                        os.utime(place.fd, ns=(mtime, mtime))
                    place.keep_mode(mode)
                except OSError as problem:
                    self._failed(name, problem)
                ahead.pop()
                if not ahead:
                    return
                place.up()
        finally:
            place.close()

    def _arrange(self, place: _Place, wanted: dict[str, int | File]) -> list[tuple[int, str]]:
        """Make one folder's entries what they were; its subfolders exist afterwards, and are returned."""
        missing = dict(wanted)
        subfolders = []
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    name = item.name
                    want = wanted.get(name)
                    try:
                        # Not the item's own: that would use the descriptor we began with.
                        status = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
                        if status.st_dev != place.device:  # mounted here: none of our business
                            missing.pop(name, None)
                        elif modes.S_ISDIR(status.st_mode):
                            if isinstance(want, int):
                                del missing[name]
                                subfolders.append((want, name))
                                self.unchanged += 1
                            else:
                                self._remove_folder(place, name)
                        elif want is None or isinstance(want, int):
                            os.unlink(name, dir_fd=place.fd)
                            self.removed += 1
                        elif self._is_right(place.fd, want, status):
                            del missing[name]
                    except FileNotFoundError:
                        continue  # gone by itself
                    except OSError as problem:
                        self._failed(name, problem)
        except OSError as problem:
            self._failed("a folder", problem)
        # Not before the listing is over: what we make must not turn up in it.
        for name, want in missing.items():
            try:
                if isinstance(want, int):
                    os.mkdir(name, 0o700, dir_fd=place.fd)
                    subfolders.append((want, name))
                    self.written += 1
                else:
                    self._write(place.fd, want)
            except OSError as problem:
                self._failed(name, problem)
        return subfolders

    def _is_right(self, folder: int, file: File, status: os.stat_result) -> bool:
        """Whether a file need not be written; its mode and time are mended where that is all it takes."""
        _, name, mode, mtime, _, content = file
        now = time.clock_gettime_ns(_COARSE)
        if not self._versions._has_content(folder, file, status, self._index):
            return False
        if content is None or (status.st_mode == mode and status.st_mtime_ns == mtime):
            # Without content: we could not read it, or it is a socket or a fifo that somebody may be using.
            self._learn(file, status, now)
            self.unchanged += 1
            return True
        if status.st_nlink > 1:
            return False  # its other names may lie elsewhere, and are not ours to change
        if status.st_mode != mode:
            _chmod(folder, name, modes.S_IMODE(mode))
        os.utime(name, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)
        after = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if after.st_ino == status.st_ino:
            self._learn(file, after, now)
        self.written += 1
        return True

    def _learn(self, file: File, status: os.stat_result, now: int) -> None:
        """Remember what the content of a file is, when it was found to be so after `now`."""
        content = file[5]
        if content is not None and modes.S_ISREG(status.st_mode) and file[3] == status.st_mtime_ns < now:
            self.learned[status.st_ino] = (*_signature(status), content)

    def _write(self, folder: int, file: File) -> None:
        _, name, mode, mtime, size, content = file
        beside = f".cloche-{os.urandom(8).hex()}"
        if content is None and not modes.S_ISFIFO(mode):
            return  # a socket, or what could not be read
        try:
            if self.frugal:
                try:
                    os.unlink(name, dir_fd=folder)
                except FileNotFoundError:
                    pass
            if modes.S_ISREG(mode):
                assert content is not None
                self._write_regular(folder, file, beside, content)
                self.bytes += size
            else:
                if content is None:
                    os.mkfifo(beside, dir_fd=folder)
                    _chmod(folder, beside, modes.S_IMODE(mode))
                else:
                    os.symlink(content, beside, dir_fd=folder)
                os.utime(beside, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            try:
                os.unlink(beside, dir_fd=folder)
            except FileNotFoundError:
                pass
            raise
        self.written += 1

    def _write_regular(self, folder: int, file: File, beside: str, content: str) -> None:
        _, name, mode, mtime, size, _ = file
        source = self._versions._open_object(content)
        try:
            target = os.open(beside, _CREATE, 0o600, dir_fd=folder)
            try:
                for offset, data in _pieces(source, size):
                    _write_at(target, data, offset)
                os.ftruncate(target, size)
                os.fchmod(target, modes.S_IMODE(mode))
                os.utime(target, ns=(mtime, mtime))
                now = time.clock_gettime_ns(_COARSE)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
                self._learn(file, os.fstat(target), now)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _remove_folder(self, place: _Place, name: str) -> None:
        """Remove a folder and all that is in it, but for what is mounted there."""
        depth = place.depth
        names = [name]
        place.down(name)
        ahead = [self._clear(place)]
        while ahead:
            subfolders = ahead[-1]
            if subfolders:
                below = subfolders.pop()
                try:
                    place.down(below)
                except OSError as problem:
                    if problem.errno != 18:
                        self._failed(below, problem)
                    continue
                names.append(below)
                ahead.append(self._clear(place))
                continue
            place.up()
            ahead.pop()
            try:
                self._remove_empty(place, names.pop())
            except OSError as problem:
                self._failed(name, problem)
        assert place.depth == depth

    def _remove_empty(self, place: _Place, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=place.fd)
            self.removed += 1
        except OSError as problem:
            if problem.errno not in (2, 16, 39):  # a mount is in it, or a program has put something there meanwhile
                raise

    def _clear(self, place: _Place) -> list[str]:
        """Remove what can be removed from a folder right away; returns the subfolders that have something in them."""
        left = []
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    try:
                        if item.is_dir(follow_symlinks=False):
                            os.rmdir(item.name, dir_fd=place.fd)
                        else:
                            os.unlink(item.name, dir_fd=place.fd)
                        self.removed += 1
                    except FileNotFoundError:
                        continue
                    except OSError as problem:
                        if item.is_dir(follow_symlinks=False):
                            left.append(item.name)
                        elif problem.errno != 16:  # a file that is mounted
                            self._failed(item.name, problem)
        except OSError as problem:
            self._failed("a folder", problem)
        return left

    def _failed(self, name: str, problem: OSError) -> None:
        if problem.errno in _NO_ROOM:
            self.no_room = True
        if self.problem is None:
            self.problem = f"{name[:200]}: {problem.strerror}"


class _Place:
    """A folder in a tree, and the way back up: at most two descriptors, however deep.

    `need` are the permissions that we want as the owner; a folder that lacks them has them while we are in it.
    When a program has moved the folders that we are in, `fd` may be invalid until we are back where the tree still is.
    """

    def __init__(self, top: int, need: int) -> None:
        self._top, self._need = top, need
        status = os.fstat(top)
        self.device = status.st_dev
        # Inode and the mode to give back (-1: as it is) of every folder on the way, and its name.
        self._trail = [(status.st_ino, self._permit(top, status), "")]
        self.unread: set[int] = set()  # folders, by the number that `_walk` gave them
        self.fd = os.open(".", _FOLDER, dir_fd=top)

    @property
    def depth(self) -> int:
        """How many folders below the top this is."""
        return len(self._trail) - 1

    def down(self, name: str) -> None:
        """Enter a folder; `fd` is then its descriptor."""
        mode = -1
        try:
            fd = os.open(name, _FOLDER, dir_fd=self.fd)
        except PermissionError:
            mode = _allow(self.fd, name, self._need)
            fd = os.open(name, _FOLDER, dir_fd=self.fd)
        status = os.fstat(fd)
        if status.st_dev != self.device:
            os.close(fd)
            raise OSError(18, "it is mounted there")
        if mode < 0:
            mode = self._permit(fd, status)
        os.close(self.fd)  # open, since it could be looked into
        self._trail.append((status.st_ino, mode, name))
        self.fd = fd

    def keep_mode(self, mode: int) -> None:
        """Leave this folder with that mode."""
        inode, given, name = self._trail[-1]
        if given >= 0 or modes.S_IMODE(os.fstat(self.fd).st_mode) != mode:
            self._trail[-1] = (inode, mode, name)

    def up(self) -> None:
        """Go back to the folder above."""
        below = self.fd
        _, mode, _ = self._trail.pop()
        self.fd = self._above(below)
        if below != _LOST:
            self._give_back(below, mode)
            os.close(below)

    def close(self) -> None:
        """Leave the tree."""
        while self.depth:
            self.up()
        self._give_back(self._top, self._trail[0][1])
        if self.fd != _LOST:
            os.close(self.fd)

    def _above(self, below: int) -> int:
        if below != _LOST:
            try:
                fd = os.open("..", _FOLDER, dir_fd=below)
            except OSError:
                pass
            else:
                if self._is(fd, self._trail[-1][0]):
                    return fd
                os.close(fd)
        # It was moved: down again from the top, as far as things are where they were.
        try:
            fd = os.open(".", _FOLDER, dir_fd=self._top)
        except OSError:
            return _LOST
        for inode, _, name in self._trail[1:]:
            above = fd
            try:
                fd = os.open(name, _FOLDER, dir_fd=above)
            except OSError:
                return _LOST
            finally:
                os.close(above)
            if not self._is(fd, inode):
                os.close(fd)
                return _LOST
        return fd

    def _is(self, fd: int, inode: int) -> bool:
        status = os.fstat(fd)
        return status.st_ino == inode and status.st_dev == self.device

    def _permit(self, fd: int, status: os.stat_result) -> int:
        mode = modes.S_IMODE(status.st_mode)
        if mode & self._need == self._need:
            return -1
        try:
            os.fchmod(fd, mode | self._need)
        except OSError:
            return -1  # not ours
        return mode

    @staticmethod
    def _give_back(fd: int, mode: int) -> None:
        if mode >= 0:
            try:
                os.fchmod(fd, mode)
            except OSError:
                pass


def _walk(place: _Place) -> Iterator[tuple[int, str, os.stat_result]]:
    """Everything below a place: the number of its folder, its name and status.

    The top is folder 0, and every folder gets the next number when it is told; its contents are told later.  At each
    moment `place` is the folder of what is told; `place.unread` are the folders that were not, or only partly, told.
    """
    ahead: list[list[tuple[int, str]]] = []
    current = number = 0
    while True:
        subfolders = []
        try:
            with os.scandir(place.fd) as listing:
                for item in listing:
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # it went away meanwhile
                    if status.st_dev != place.device:
                        continue
                    if modes.S_ISDIR(status.st_mode):
                        number += 1
                        subfolders.append((number, item.name))
                    yield current, item.name, status
        except OSError:
            place.unread.add(current)
        ahead.append(subfolders)
        while True:
            if ahead[-1]:
                current, name = ahead[-1].pop()
                try:
                    place.down(name)
                    break
                except OSError:  # perhaps it went away; but what we have not seen must not be taken for empty
                    place.unread.add(current)
                    continue
            ahead.pop()
            if not ahead:
                return
            place.up()


def _below(folders: list[Folder], files: list[File]) -> Below:
    below: Below = [{} for _ in folders]
    for number in range(1, len(folders)):
        below[folders[number][0]][folders[number][1]] = number
    for file in files:
        below[file[0]][file[1]] = file
    return below


def _path(folders: list[Folder], parent: int, name: str) -> str:
    path = name
    while parent and len(path) < _MAX_PATH:
        parent, name = folders[parent][:2]
        path = f"{name}/{path}"
    return f"…/{path}" if parent else path


def _file_name(name: str) -> str:
    raw = os.fsencode(name)
    if not 0 < len(raw) <= MAX_NAME:
        raise ValueError(f"a version's name has 1 to {MAX_NAME} bytes")
    return raw.hex()


def _too_many(most: int) -> OSError:
    return OSError(7, f"more than {most:,} files: too many for a version")


def _signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _open_file(folder: int, name: str) -> int:
    """Open a regular file for reading, ours to read or not."""
    try:
        fd = os.open(name, _READ, dir_fd=folder)
    except PermissionError:
        mode = _allow(folder, name, 0o400)
        fd = os.open(name, _READ, dir_fd=folder)
        os.fchmod(fd, mode)
    if not modes.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "it is not a regular file")
    return fd


def _allow(folder: int, name: str, need: int) -> int:
    """Give ourselves permissions that an entry of ours lacks; returns the mode it had."""
    mode = modes.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    _chmod(folder, name, mode | need)
    return mode


def _chmod(folder: int, name: str, mode: int) -> None:
    try:
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError, NotImplementedError):
        # The C library may need /proc/self/fd for it, which the agent may not have.  Then we look first; whoever
        # puts a link there between the two calls could as well have changed the link's target themselves.
        if modes.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(40, "it is a link") from None
        os.chmod(name, mode, dir_fd=folder)


def _hasher(size: int) -> Any:
    # For much data OpenSSL's is faster where the processor helps; for little, loading OpenSSL would take longer.
    if size > _CHUNK:
        try:
            from _hashlib import openssl_sha256

            return openssl_sha256
        except ImportError:
            pass
    from _blake2 import blake2b

    return blake2b


def _pieces(fd: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """The data of a file up to a size, without its holes; each piece is good until the next one is asked for."""
    buffer = memoryview(bytearray(min(size, _CHUNK)))
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError:
            return  # ENXIO: nothing but a hole
        while start < end:
            count = os.preadv(fd, [buffer[: end - start]], start)
            if not count:
                return  # it has become shorter
            yield start, buffer[:count]
            start += count


def _equal(one: int, other: int, size: int) -> bool:
    position = 0
    while position < size:
        position = min(_next_data(one, position, size), _next_data(other, position, size))
        mine, theirs = os.pread(one, _CHUNK, position), os.pread(other, _CHUNK, position)
        if mine != theirs:
            return False
        position += max(len(mine), 1)
    return True


def _next_data(fd: int, position: int, size: int) -> int:
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError:
        return size


def _write_at(fd: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count
