"""Files inside a sandbox, as told by it."""

from __future__ import annotations

from cloche.model.plain import Plain


class Entry(Plain):
    """A file, folder or link."""

    path: str
    kind: str  # "file", "directory", "symlink" or "other"
    size: int
    mode: int
    modified: float  # seconds since the epoch
    target: str | None = None  # of a link

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Details(Plain):
    """A file, folder or link, and what few ask for: whose it is, what was written about it, where a link ends."""

    path: str
    kind: str
    size: int
    mode: int
    modified: float
    uid: int
    gid: int
    attributes: dict[str, str]  # xattrs in the `user` namespace
    end: str | None = None  # of a link, followed to the end; None when nothing is there
    end_kind: str = ""
    end_mode: int = 0


class Listing(list[Entry]):
    """What is in a folder; `truncated` when there was more than can be told at once."""

    truncated = False


class Change(Plain):
    """Something that happened to a file; `kind` is create, write, remove, rename, chmod or overflow."""

    kind: str
    path: str
    arrived: bool = False  # of a rename: this is its new name


class Mount(Plain):
    """A folder of the host, shown inside a sandbox."""

    source: str
    target: str
    writable: bool = False
    identity: tuple[int, int] | None = None  # the device and inode of a source that a server's policy has checked


class Port(Plain):
    """A TCP port inside a sandbox on which something listens."""

    port: int
    address: str  # 127.0.0.1, 0.0.0.0 (all), ::1, …
    pid: int | None = None  # whose it is, where that can be told
