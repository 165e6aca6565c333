"""A workspace on the server's disk: a manifest that lists its entries, and file contents named by their digests.

A sandbox never chooses a name on this disk: the paths of its files appear only as lines in the manifest.  The manifest
is replaced as a whole, after all contents that it names are on the disk; a crash leaves either the old one or the new.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from cloche.errors import ClocheError, FileProblem, SandboxFailed

VERSION = 1
PIECE = 1 << 20
_FEW = 32  # up to so many new files are flushed one by one; for more, the whole file system is flushed at once
_MANIFEST, _NEW = "manifest", "new-"
_DIGEST = re.compile("[0-9a-f]{64}")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SavedEntry(NamedTuple):
    """A saved file, folder or link.  `content` is the digest of a file, or the target of a link."""

    kind: str  # "file", "directory" or "symlink"
    mode: int
    modified: int | None  # in nanoseconds, of a file
    size: int
    content: str | None


Tree = Mapping[str, SavedEntry]  # by path, relative to /sandbox


@dataclass(frozen=True, slots=True)
class About:
    """The facts about a workspace that are known without looking at its files."""

    id: str
    owner: str
    created: float
    saved: float
    opened: float
    sandbox: str  # the last one that had the workspace open
    bytes: int = 0
    files: int = 0
    network: Mapping[str, Any] = field(default_factory=dict)  # the policy of that sandbox, without values of secrets


class Damaged(Exception):
    """The manifest or the contents of a file are missing, or make no sense."""


def read_about(folder: Path) -> About:
    """Read the first line of the manifest in a folder."""
    try:
        with open(folder / _MANIFEST, "rb") as file:
            return _about(file.readline())
    except OSError as problem:
        raise Damaged(str(problem)) from problem


def read(folder: Path) -> tuple[About, dict[str, SavedEntry]]:
    """Read the whole manifest in a folder."""
    try:
        with open(folder / _MANIFEST, "rb") as file:
            about = _about(file.readline())
            tree: dict[str, SavedEntry] = {}
            for line in file:
                path, *rest = loads(line)
                tree[path] = SavedEntry(*rest)
            return about, tree
    except OSError as problem:
        raise Damaged(str(problem)) from problem
    except (ValueError, TypeError) as problem:
        raise Damaged(f"a line of the manifest makes no sense: {problem}") from problem


def _about(line: bytes) -> About:
    try:
        fields = loads(line)
        if fields.pop("version") != VERSION:
            raise ValueError("it is of another version")
        return About(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise Damaged(f"the manifest makes no sense: {problem}") from problem


def write(folder: Path, about: About, tree: Tree, new: Iterable[str]) -> None:
    """Flush new contents to the disk, then replace the manifest."""
    _bring(folder, list(new))
    temporary = folder / f"{_NEW}{token_hex(8)}"
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(dumps({"version": VERSION, **asdict(about)}).encode() + b"\n")
            file.writelines(dumps([path, *entry]).encode() + b"\n" for path, entry in tree.items())
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, folder / _MANIFEST)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def sweep(folder: Path, needed: Iterable[str]) -> None:
    """Remove every file that is neither the manifest nor among the needed contents."""
    keep = {_MANIFEST, *needed}
    for name in os.listdir(folder):
        if name not in keep:
            (folder / name).unlink(missing_ok=True)


def forget(folder: Path, contents: Iterable[str]) -> None:
    """Remove contents that are no longer needed."""
    for content in contents:
        (folder / content).unlink(missing_ok=True)


def contents_of(tree: Tree) -> set[str]:
    """The digests of all contents that a tree needs."""
    return {entry.content for entry in tree.values() if entry.kind == "file" and entry.content is not None}


class Draft:
    """Contents that are being written; their name, the digest, is known when they are complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{_NEW}{token_hex(8)}"
        self._file = open(self._path, "xb", buffering=0, opener=_private)
        self._digest = sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def keep(self) -> tuple[str, bool]:
        """Give the contents their final name; return it, and whether this workspace did not have them yet."""
        name = self._digest.hexdigest()
        target = self._folder / name
        self._file.close()
        if target.exists():
            self._path.unlink()
            return name, False
        os.rename(self._path, target)
        return name, True

    def drop(self) -> None:
        """Discard the contents.  Does nothing after `keep`."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class Contents:
    """Saved contents, read piece by piece until `over`, then compared with the digest that names them."""

    def __init__(self, folder: Path, name: str) -> None:
        if not _DIGEST.fullmatch(name):
            raise Damaged("a file of the workspace has no contents")
        self._name, self._digest = name, sha256()
        self._file = open(folder / name, "rb", buffering=0)
        self.over = False

    def read(self) -> bytes:
        data = self._file.read(PIECE)
        self._digest.update(data)
        self.over = len(data) < PIECE
        if self.over and self._digest.hexdigest() != self._name:
            raise Damaged("the contents of a file are not what they were")
        return data

    def close(self) -> None:
        self._file.close()


def problem_of(problem: OSError) -> ClocheError:
    """The error to raise when the server's disk cannot be written."""
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
