"""Files, mounts and ports of a sandbox."""

from __future__ import annotations

from cloche.model.plain import Plain


class Entry(Plain):
    """A file, folder or link."""

    path: str
    kind: str  # "file", "directory", "symlink" or "other"
    size: int
    mode: int
    modified: float  # seconds since the epoch
    target: str | None = None  # what a link says, as it was written

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Details(Plain):
    """A file, folder or link with its owner, its extended attributes, and the end of a link."""

    path: str
    kind: str
    size: int
    mode: int
    modified: float
    uid: int
    gid: int
    attributes: dict[str, str]  # extended attributes in the `user` namespace
    end: str | None = None  # the path that a link leads to in the end; None when nothing is there
    end_kind: str = ""
    end_mode: int = 0


class Listing(list[Entry]):
    """The entries of a folder; `truncated` is true when there were too many to list them all."""

    truncated = False


class Change(Plain):
    """A change of a file; `kind` is create, write, remove, rename, chmod, or overflow when changes were missed."""

    kind: str
    path: str
    arrived: bool = False  # of a rename: `path` is the new name, not the old one


class Mount(Plain):
    """A folder of the host, shown inside a sandbox."""

    source: str
    target: str
    writable: bool = False
    identity: tuple[int, int] | None = None  # the device and inode of a source that a server's policy has checked


class Port(Plain):
    """A TCP port inside a sandbox on which a program listens."""

    port: int
    address: str  # 127.0.0.1, 0.0.0.0 (all), ::1, …
    pid: int | None = None  # the program that listens, where the sandbox can tell
