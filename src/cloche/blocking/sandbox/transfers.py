# Generated from src/cloche/sandbox/transfers.py by scripts/blocking.py: edit that file instead.
"""Moves files into and out of a sandbox piece by piece, so that no whole file has to fit into memory."""

from __future__ import annotations

from cloche.errors import Gone
from cloche.model.files import Entry
from cloche.sandbox.checks import checked_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cloche.blocking.sandbox.backend import Reader, Writer
    from cloche.sandbox.checks import Data


class Reading:
    """A file that is being read from a sandbox: iterate over it to get its contents in pieces.

    Use it in a `with` block, or `close` it.  A slow reader makes the sandbox wait and does not fill up memory.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._size: int | None = None

    @property
    def size(self) -> int:
        """The size of the whole file when the reading began."""
        if self._size is None:
            raise Gone("The file's size is not known yet.", hint="Call begin(), or use a `with` block.")
        return self._size

    def begin(self) -> Self:
        """Open the file and learn its size.  Iterating does the same."""
        if self._size is None and not self._reader.is_over:
            self._size = self._reader.begin()
        return self

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self.begin()
        piece = self._reader.next()
        if not piece:
            raise StopIteration
        return piece

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.close()


class Writing:
    """A file that is being written into a sandbox: `write` its pieces, then `finish`.

    `finish` puts the whole file in its place at once, and no program sees it before; an aborted file leaves no trace.
    Leaving a `with` block finishes the file; leaving it by an exception aborts it.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def begin(self) -> Self:
        """Open the file in the sandbox.  Writing does the same."""
        if self._writer.is_over:
            raise Gone("This file was finished or aborted already.", hint="Begin another with write_stream.")
        self._writer.begin()
        return self

    def write(self, data: str | Data) -> None:
        """Send the next piece; wait while the sandbox is busy with earlier ones."""
        checked = checked_data("data", data)
        self.begin()
        self._writer.write(checked)

    def finish(self) -> Entry:
        """Put the file in its place, and return its entry."""
        self.begin()
        return self._writer.finish()

    def abort(self) -> None:
        """Discard the pieces that were sent; an earlier file at this path stays."""
        self._writer.abort()

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif not self._writer.is_over:
            self.finish()
