"""How far a build is: shown to whoever started it, and written to a file for other processes that wait for it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

__all__ = ["Progress", "Silent", "only_builder", "progress_of"]


class Progress(Protocol):
    """Shows how far a build is."""

    def step(self, text: str) -> None:
        """Called when a step begins."""

    def count(self, ready: int, total: int, size: int) -> None:
        """Called when one more of `total` packages is ready; `size` is the number of bytes of all that are."""


class Silent:
    """Shows nothing."""

    def step(self, text: str) -> None: ...

    def count(self, ready: int, total: int, size: int) -> None: ...


class _Written:
    """Passes everything on, and writes it down."""

    def __init__(self, shown: Progress, file: Path) -> None:
        self._shown, self._file, self._step = shown, file, ""

    def step(self, text: str) -> None:
        self._step = text
        self._shown.step(text)
        self._file.write_text(text)

    def count(self, ready: int, total: int, size: int) -> None:
        self._shown.count(ready, total, size)
        self._file.write_text(f"{self._step}, {ready} of {total}")


@contextmanager
def only_builder(target: Path, shown: Progress) -> Iterator[Progress]:
    """Wait until no other process builds beside `target`, and keep others waiting."""
    # The file stays: removing it would let two builders hold locks on two files of the same name.
    with open(target.parent / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            shown.step("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        file = _file_of(target)
        try:
            yield _Written(shown, file)
        finally:
            file.unlink(missing_ok=True)


def progress_of(target: str | os.PathLike[str]) -> str | None:
    """Return the step of the build of `target` that is under way in another process; None if there is no build."""
    target = Path(target)
    try:
        with open(target.parent / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        pass
    except OSError:
        return None
    try:
        return _file_of(target).read_text() or None
    except OSError:
        return None  # another environment is being built in the same folder


def _file_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.progress")
