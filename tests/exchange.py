"""Swaps a path with a link, back and forth, as a sandbox does that may write to the folder above (RENAME_EXCHANGE)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def exchanging(path: Path, target: Path) -> Iterator[None]:
    """While the block lasts, `path` is by turns what it was and a link to `target`; afterwards it is what it was."""
    link = path.with_name(f"{path.name}-link")
    link.symlink_to(target)
    library = ctypes.CDLL(None, use_errno=True)
    over = Event()

    def exchange() -> None:
        if library.renameat2(_AT_FDCWD, bytes(path), _AT_FDCWD, bytes(link), _RENAME_EXCHANGE) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def swap() -> None:
        while not over.is_set():
            exchange()
            exchange()

    thread = Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        link.unlink()
