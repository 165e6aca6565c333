# Generated from src/cloche/sandbox/cells.py by scripts/blocking.py: edit that file instead.
"""The events of a cell, for callers that iterate over them."""

from __future__ import annotations

from cloche.blocking.io.tasks import Lock
from cloche.errors import ClocheError, InvalidRun
from cloche.model.events import CellEvent, End
from cloche.sandbox.checks import checked_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.sandbox.backend import Cell
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data


class CellEvents:
    """The events of one cell, in order.  The cell starts with the first request for an event; the last is `end`."""

    def __init__(self, start: Any, over: Any, stdin: Data | None, interactive: bool = False) -> None:
        self._start, self._over, self._stdin, self._interactive = start, over, stdin, interactive
        self._starting = Lock()
        self._cell: Cell | None = None
        self._context: Any = None
        self._is_over = False

    def write(self, data: str | Data) -> None:
        """Write to the standard input of an interactive cell; wait while the cell does not read."""
        checked = checked_data("input", data)
        (self._interactive_cell()).write(checked)

    def close_stdin(self) -> None:
        """Close the standard input of an interactive cell."""
        (self._interactive_cell()).close_stdin()

    def _interactive_cell(self) -> Cell:
        if not self._interactive:
            raise InvalidRun("This cell takes no input while it runs.", hint="Stream it with interactive=True.")
        return self._started()

    def _started(self) -> Cell:
        with self._starting:
            if self._cell is None:
                self._cell, self._context = self._start()
                if self._stdin is not None:
                    self._cell.feed(self._stdin)
            return self._cell

    def __iter__(self) -> CellEvents:
        return self

    def __next__(self) -> CellEvent:
        if self._is_over:
            raise StopIteration
        cell = self._cell if self._cell is not None else self._started()
        try:
            event = cell.next_event()
        except ClocheError:
            self._is_over = True
            self._over(cell, self._context)
            raise
        if event is None:
            assert cell.result is not None
            event = End(cell.result)
        if isinstance(event, End):
            self._is_over = True
            self._over(cell, self._context)
        return event

    @property
    def result(self) -> Result | None:
        """The result, once the cell is over."""
        return None if self._cell is None else self._cell.result

    @property
    def began(self) -> bool:
        """Whether the cell has started: it may have to wait for its context first."""
        return self._cell is not None

    def interrupt(self) -> None:
        """Stop the cell; variables stay."""
        if self._cell is not None:
            self._cell.interrupt()

    def __del__(self) -> None:
        if self._cell is not None:
            self._cell.abandon()
