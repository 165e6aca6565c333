"""What tests of versions share: a real tree, a store for it, and a look at all that is in a folder."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloche.agent.versions import Versions, index, take


def opened(path: Path) -> int:
    """The descriptor of a folder."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def snapshot(top: Path) -> dict[bytes, tuple[Any, ...]]:
    """All there is to know of a tree, but for what its inodes are."""
    found: dict[bytes, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in [*folders, *files, b"."]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content: bytes | None = None
            if stat.S_ISREG(status.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, os.fsencode(top))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def settle() -> None:
    """Wait until what was written is older than the kernel's clock tick, as a file usually is."""
    written = time.time_ns()
    while index.now() <= written:
        pass


def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened to be stored, from now on."""
    read: list[str] = []
    original = take._Taking._read

    def observed(self: Any, folder: int, parent: int, name: str) -> Any:
        read.append(name)
        return original(self, folder, parent, name)

    monkeypatch.setattr(take._Taking, "_read", observed)
    return read


class Workspace:
    """A tree, the store of its versions, and a folder beside them that must stay as it is."""

    opened = staticmethod(opened)
    snapshot = staticmethod(snapshot)
    settle = staticmethod(settle)
    files_read = staticmethod(files_read)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top, self.store, self.outside = folder / "top", folder / "store", folder / "outside"
        for path in (self.top, self.store, self.outside):
            path.mkdir()
        self.top_fd, self.store_fd = opened(self.top), opened(self.store)
        self.versions = Versions(self.top_fd, self.store_fd)

    def objects(self) -> int:
        return len(os.listdir(self.store / "objects"))

    def write(self, path: str, content: str | bytes = "") -> Path:
        target = self.top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target


@pytest.fixture
def space(tmp_path: Path) -> Iterator[Workspace]:
    descriptors = set(os.listdir("/proc/self/fd"))
    workspace = Workspace(tmp_path)
    yield workspace
    os.close(workspace.top_fd)
    os.close(workspace.store_fd)
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    subprocess.run(["rm", "-rf", str(tmp_path)], check=False)  # pytest gives up on trees this deep
