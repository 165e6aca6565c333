"""Moves files into and out of a sandbox piece by piece, so that no whole file has to fit into memory."""

from __future__ import annotations

from cloche.errors import Gone
from cloche.model.files import Entry
from cloche.sandbox.checks import checked_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cloche.sandbox.backend import AsyncReader, AsyncWriter
    from cloche.sandbox.checks import Data


class AsyncReading:
    """A file that is being read from a sandbox: iterate over it to get its contents in pieces.

    Use it in a `with` block, or `close` it.  A slow reader makes the sandbox wait and does not fill up memory.
    """

    def __init__(self, reader: AsyncReader) -> None:
        self._reader = reader
        self._size: int | None = None

    @property
    def size(self) -> int:
        """The size of the whole file when the reading began."""
        if self._size is None:
            raise Gone("The file's size is not known yet.", hint="Call begin(), or use a `with` block.")
        return self._size

    async def begin(self) -> Self:
        """Open the file and learn its size.  Iterating does the same."""
        if self._size is None and not self._reader.is_over:
            self._size = await self._reader.begin()
        return self

    async def close(self) -> None:
        """Stop reading."""
        await self._reader.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await self.begin()
        piece = await self._reader.next()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncWriting:
    """A file that is being written into a sandbox: `write` its pieces, then `finish`.

    `finish` puts the whole file in its place at once, and no program sees it before; an aborted file leaves no trace.
    Leaving a `with` block finishes the file; leaving it by an exception aborts it.
    """

    def __init__(self, writer: AsyncWriter) -> None:
        self._writer = writer

    async def begin(self) -> Self:
        """Open the file in the sandbox.  Writing does the same."""
        if self._writer.is_over:
            raise Gone("This file was finished or aborted already.", hint="Begin another with write_stream.")
        await self._writer.begin()
        return self

    async def write(self, data: str | Data) -> None:
        """Send the next piece; wait while the sandbox is busy with earlier ones."""
        checked = checked_data("data", data)
        await self.begin()
        await self._writer.write(checked)

    async def finish(self) -> Entry:
        """Put the file in its place, and return its entry."""
        await self.begin()
        return await self._writer.finish()

    async def abort(self) -> None:
        """Discard the pieces that were sent; an earlier file at this path stays."""
        await self._writer.abort()

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            await self.abort()
        elif not self._writer.is_over:
            await self.finish()
