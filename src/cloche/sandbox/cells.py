"""The events of a cell, for callers that iterate over them."""

from __future__ import annotations

from cloche.errors import ClocheError, InvalidRun
from cloche.io.tasks import AsyncLock
from cloche.model.events import CellEvent, End
from cloche.sandbox.checks import checked_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.result import Result
    from cloche.sandbox.backend import AsyncCell
    from cloche.sandbox.checks import Data


class AsyncCellEvents:
    """The events of one cell, in order.  The cell starts with the first request for an event; the last is `end`."""

    def __init__(self, start: Any, over: Any, stdin: Data | None, interactive: bool = False) -> None:
        self._start, self._over, self._stdin, self._interactive = start, over, stdin, interactive
        self._starting = AsyncLock()
        self._cell: AsyncCell | None = None
        self._context: Any = None
        self._is_over = False

    async def write(self, data: str | Data) -> None:
        """Write to the standard input of an interactive cell; wait while the cell does not read."""
        checked = checked_data("input", data)
        await (await self._interactive_cell()).write(checked)

    async def close_stdin(self) -> None:
        """Close the standard input of an interactive cell."""
        await (await self._interactive_cell()).close_stdin()

    async def _interactive_cell(self) -> AsyncCell:
        if not self._interactive:
            raise InvalidRun("This cell takes no input while it runs.", hint="Stream it with interactive=True.")
        return await self._started()

    async def _started(self) -> AsyncCell:
        async with self._starting:
            if self._cell is None:
                self._cell, self._context = await self._start()
                if self._stdin is not None:
                    await self._cell.feed(self._stdin)
            return self._cell

    def __aiter__(self) -> AsyncCellEvents:
        return self

    async def __anext__(self) -> CellEvent:
        if self._is_over:
            raise StopAsyncIteration
        cell = self._cell if self._cell is not None else await self._started()
        try:
            event = await cell.next_event()
        except ClocheError:
            self._is_over = True
            await self._over(cell, self._context)
            raise
        if event is None:
            assert cell.result is not None
            event = End(cell.result)
        if isinstance(event, End):
            self._is_over = True
            await self._over(cell, self._context)
        return event

    @property
    def result(self) -> Result | None:
        """The result, once the cell is over."""
        return None if self._cell is None else self._cell.result

    @property
    def began(self) -> bool:
        """Whether the cell has started: it may have to wait for its context first."""
        return self._cell is not None

    async def interrupt(self) -> None:
        """Stop the cell; variables stay."""
        if self._cell is not None:
            await self._cell.interrupt()

    def __del__(self) -> None:
        if self._cell is not None:
            self._cell.abandon()
