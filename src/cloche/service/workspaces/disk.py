"""A workspace on the disk of the server: a manifest of what it has, and the contents of its files by their digests.

Nothing here is named by what a sandbox says: paths of its files are lines in the manifest and nothing else.  The
manifest is replaced as a whole, after all that it names is there; a crash at any moment leaves the one or the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from cloche.errors import ClocheError, FileProblem, SandboxFailed

VERSION = 1
PIECE = 1 << 20
_FEW = 32  # new contents that are brought to the disk one by one; more than that, with all else that is to go there
_MANIFEST, _NEW = "manifest", "new-"
_DIGEST = re.compile("[0-9a-f]{64}")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Kept(NamedTuple):
    """A file, folder or link as it is kept; `content` is the digest of a file, or where a link leads."""

    kind: str  # "file", "directory" or "symlink"
    mode: int
    modified: int | None  # in nanoseconds, of a file
    size: int
    content: str | None


Tree = Mapping[str, Kept]  # by path, relative to /sandbox


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a workspace without looking at its files."""

    id: str
    owner: str
    created: float
    saved: float
    opened: float
    sandbox: str  # that had it last
    bytes: int = 0
    files: int = 0


class Damaged(Exception):
    """There is no manifest, or none that makes sense."""


def read_about(folder: Path) -> About:
    """What the manifest in a folder is about."""
    try:
        with open(folder / _MANIFEST, "rb") as file:
            return _about(file.readline())
    except OSError as problem:
        raise Damaged(str(problem)) from problem


def read(folder: Path) -> tuple[About, dict[str, Kept]]:
    """The whole manifest in a folder."""
    try:
        with open(folder / _MANIFEST, "rb") as file:
            about = _about(file.readline())
            tree: dict[str, Kept] = {}
            for line in file:
                path, *rest = loads(line)
                tree[path] = Kept(*rest)
            return about, tree
    except OSError as problem:
        raise Damaged(str(problem)) from problem
    except (ValueError, TypeError) as problem:
        raise Damaged(f"a line of the manifest makes no sense: {problem}") from problem


def _about(line: bytes) -> About:
    try:
        told = loads(line)
        if told.pop("version") != VERSION:
            raise ValueError("it is of another version")
        return About(**told)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise Damaged(f"the manifest makes no sense: {problem}") from problem


def write(folder: Path, about: About, tree: Tree, new: Iterable[str]) -> None:
    """Bring new contents to the disk, then put the manifest in the place of the one before."""
    _bring(folder, list(new))
    temporary = folder / f"{_NEW}{token_hex(8)}"
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(dumps({"version": VERSION, **asdict(about)}).encode() + b"\n")
            file.writelines(dumps([path, *kept]).encode() + b"\n" for path, kept in tree.items())
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, folder / _MANIFEST)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def sweep(folder: Path, needed: Iterable[str]) -> None:
    """Remove all that no manifest names."""
    keep = {_MANIFEST, *needed}
    for name in os.listdir(folder):
        if name not in keep:
            (folder / name).unlink(missing_ok=True)


def forget(folder: Path, contents: Iterable[str]) -> None:
    """Remove contents that are not needed."""
    for content in contents:
        (folder / content).unlink(missing_ok=True)


def contents_of(tree: Tree) -> set[str]:
    """The contents that a tree needs."""
    return {kept.content for kept in tree.values() if kept.kind == "file" and kept.content is not None}


class Draft:
    """Contents on their way to the disk; their name is known when they are complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{_NEW}{token_hex(8)}"
        self._file = open(self._path, "xb", buffering=0, opener=_private)
        self._digest = sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """More of them."""
        self._digest.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def keep(self) -> tuple[str, bool]:
        """Their name, and whether they are new here."""
        name = self._digest.hexdigest()
        target = self._folder / name
        self._file.close()
        if target.exists():
            self._path.unlink()
            return name, False
        os.rename(self._path, target)
        return name, True

    def drop(self) -> None:
        """They are not wanted any more; nothing happens when they were kept."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class Contents:
    """Contents that are kept, read piece by piece until they are `over`, and compared with their name."""

    def __init__(self, folder: Path, name: str) -> None:
        if not _DIGEST.fullmatch(name):
            raise Damaged("a file of the workspace has no contents")
        self._name, self._digest = name, sha256()
        self._file = open(folder / name, "rb", buffering=0)
        self.over = False

    def read(self) -> bytes:
        """The next piece."""
        data = self._file.read(PIECE)
        self._digest.update(data)
        self.over = len(data) < PIECE
        if self.over and self._digest.hexdigest() != self._name:
            raise Damaged("the contents of a file are not what they were")
        return data

    def close(self) -> None:
        """Read no further."""
        self._file.close()


def problem_of(problem: OSError) -> ClocheError:
    """What to raise when the server's disk does not take what it should."""
    if problem.errno in FULL:
        return FileProblem(
            "The workspace could not be saved: the server's disk is full.",
            "Files that were saved before are safe. Remove workspaces, or have the operator make room.",
            errno.ENOSPC,
        )
    return SandboxFailed(
        f"The workspace could not be saved: {problem.strerror or 'the disk does not work'}.",
        hint="Files that were saved before are safe; the server's log says more.",
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _bring(folder: Path, names: list[str]) -> None:
    if len(names) > _FEW:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)
        return
    for name in names:
        fd = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
