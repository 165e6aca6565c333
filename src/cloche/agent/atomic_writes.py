"""Drafts: the new contents of a file, beside it under a name of ours, until they are complete and take its place.

Nobody is told of them: listings, artifacts, checkpoints and watches leave them out.
"""

from __future__ import annotations

import os

_PREFIX, _RANDOM = ".cloche-", 16
_MAX_REMEMBERED = 1000

_live: set[str] = set()  # names of those under way
_published: dict[str, tuple[str, ...]] = {}  # the last ones that took a place, and what a watch tells of it


class AtomicWrite:
    """A file on its way to a place, in the same folder."""

    def __init__(self, target: str, replaced: os.stat_result | None) -> None:
        self._target, self._replaces = os.path.basename(target), replaced is not None
        self._name = _PREFIX + os.urandom(_RANDOM).hex()
        self._folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            if replaced is not None and replaced.st_dev != os.fstat(self._folder).st_dev:
                raise OSError(16, "the file is a mount")
            self.fd = os.open(self._name, flags, 0o644, dir_fd=self._folder)
        except OSError:
            os.close(self._folder)
            raise
        _live.add(self._name)
        if replaced is not None:
            os.fchmod(self.fd, replaced.st_mode & 0o7777)

    def publish(self) -> None:
        """Let it take its place; `drop` it in any case."""
        size = os.fstat(self.fd).st_size
        os.rename(self._name, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        _live.discard(self._name)
        _published[self._name] = ("write",) if self._replaces else ("create", "write") if size else ("create",)
        if len(_published) > _MAX_REMEMBERED:
            del _published[next(iter(_published))]

    def drop(self) -> None:
        """Close it; unless it has taken its place, it is gone."""
        os.close(self.fd)
        if self._name in _live:
            _live.discard(self._name)
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except OSError:
                pass  # somebody else has removed it
        os.close(self._folder)


def is_live(name: str) -> bool:
    """Is this a draft under way?"""
    return name in _live


def is_draft(name: str) -> bool:
    """Is this a name that we give to drafts?  For who cannot know which are under way."""
    return name.startswith(_PREFIX) and len(name) == len(_PREFIX) + 2 * _RANDOM


def told_of(name: str) -> tuple[str, ...]:
    """The changes that a watch tells of when this draft takes its place."""
    return _published.get(name, ("write",))
