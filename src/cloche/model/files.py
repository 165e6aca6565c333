"""Files inside a sandbox, as told by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
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


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a file; `kind` is create, write, remove, rename, chmod or overflow."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host, shown inside a sandbox."""

    source: str
    target: str
    writable: bool = False
