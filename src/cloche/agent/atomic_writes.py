"""Atomic writes: new contents go to a temporary file in the same folder, which replaces the target once it is complete.

Temporary files are invisible to users: listings, artifacts, checkpoints and watches leave them out.
"""

from __future__ import annotations

import os

_PREFIX, _RANDOM = ".cloche-", 16
_MAX_REMEMBERED = 1000

_in_progress: set[str] = set()  # names of temporary files that are being written
# Recently renamed temporary files, and the changes that a watch reports for each.
_published: dict[str, tuple[str, ...]] = {}


class AtomicWrite:
    """A temporary file that will replace `target`."""

    def __init__(self, target: str, replaced: os.stat_result | None) -> None:
        self._target, self._replaces = os.path.basename(target), replaced is not None
        self._name = _PREFIX + os.urandom(_RANDOM).hex()
        self._folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            if replaced is not None and replaced.st_dev != os.fstat(self._folder).st_dev:
                raise OSError(16, "the file is a mount point")
            self.fd = os.open(self._name, flags, 0o644, dir_fd=self._folder)
        except OSError:
            os.close(self._folder)
            raise
        _in_progress.add(self._name)
        if replaced is not None:
            os.fchmod(self.fd, replaced.st_mode & 0o7777)

    def publish(self) -> None:
        """Replace the target.  Call `drop` in any case."""
        size = os.fstat(self.fd).st_size
        os.rename(self._name, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        _in_progress.discard(self._name)
        _published[self._name] = ("write",) if self._replaces else ("create", "write") if size else ("create",)
        if len(_published) > _MAX_REMEMBERED:
            del _published[next(iter(_published))]

    def drop(self) -> None:
        """Close the file, and delete it unless it has replaced the target."""
        os.close(self.fd)
        if self._name in _in_progress:
            _in_progress.discard(self._name)
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except OSError:
                pass  # somebody else has deleted it
        os.close(self._folder)


def is_in_progress(name: str) -> bool:
    """Say whether this is the name of a temporary file that is being written now."""
    return name in _in_progress


def is_temporary_name(name: str) -> bool:
    """Say whether the name has the form of our temporary names, for code that cannot know which ones are in use."""
    return name.startswith(_PREFIX) and len(name) == len(_PREFIX) + 2 * _RANDOM


def changes_of(name: str) -> tuple[str, ...]:
    """Return the changes that a watch reports when this temporary file replaces its target."""
    return _published.get(name, ("write",))
