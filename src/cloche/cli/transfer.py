"""Shows how far a copy is, on a terminal, once it has taken a second."""

from __future__ import annotations

import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_QUIET_S = 1.0


class Transfer:
    """A copy under way; `total` is None where the size is not known."""

    def __init__(self, total: int | None) -> None:
        self._total, self._moved = total, 0
        self._began = monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def moved(self, size: int) -> None:
        """Count bytes that were copied."""
        self._moved += size
        if self._bar is None and sys.stderr.isatty() and monotonic() > self._began + _QUIET_S:
            self._show()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._moved)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=self._total)
        self._bar.start()
