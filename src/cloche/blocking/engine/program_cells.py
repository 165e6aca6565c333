# Generated from src/cloche/engine/program_cells.py by scripts/blocking.py: edit that file instead.
"""A program that is run like a cell: what `box.run` does for languages that keep no variables from run to run."""

from __future__ import annotations

from cloche.blocking.engine.cells import Cell
from cloche.blocking.engine.commands import Process
from cloche.errors import ClocheError
from cloche.model.events import CellEvent, End, Exit, Failed, Output, Shown, Started
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import Sandbox
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data


class ProgramCell(Cell):
    """One program: iterate over its events, or `finish` it."""

    def __init__(self, box: Sandbox, code: str, options: dict[str, Any], keep: int) -> None:
        self._box, self._code, self._options, self._keep = box, code, options, keep
        self._process: Process | None = None
        self._ahead: list[CellEvent] = []
        self._stopped = False
        self.lost_before = self.abandoned = self.over = False
        self.result: Result | None = None

    def begin(self) -> None:
        """Start it."""
        self._process = self._box.start_program(self._code, **self._options)
        if self._stopped:  # while it was being started
            self._process.kill()

    def finish(self, stdin: Data | None) -> Result:
        """Give it its input and wait for its end."""
        assert self._process is not None
        try:
            self.result = self._process.finish(stdin)
        finally:
            self.over = True
        return self.result

    def feed(self, data: Data) -> None:
        """All of its standard input."""
        assert self._process is not None
        self._process.feed(data)

    def write(self, data: str | Data) -> None:
        """Write to its standard input."""
        assert self._process is not None
        self._process.write(data)

    def close_stdin(self) -> None:
        """Nothing more comes on its standard input."""
        assert self._process is not None
        self._process.close_stdin()

    def next_event(self) -> CellEvent | None:
        """The next thing that happens; None after the end."""
        assert self._process is not None
        while not self._ahead and self.result is None:
            try:
                event = self._process.next_event()
            except ClocheError:
                self.over = True
                raise
            if isinstance(event, Started | Output):
                return event
            if isinstance(event, Exit):
                self._take_result(event.result)
        return self._ahead.pop(0) if self._ahead else None

    def _take_result(self, result: Result) -> None:
        self.over = True
        self.result = _shortened(result, self._keep)
        self._ahead += [Shown(display) for display in result.results]
        if result.error is not None:
            self._ahead.append(Failed(result.error))
        self._ahead.append(End(self.result))

    def interrupt(self, why: str = "interrupt") -> None:  # noqa: ARG002  (a program is killed, whatever for)
        """Have it stop."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def abandon(self) -> None:
        """The same, from where nothing can be awaited."""
        self.abandoned = True
        if not self.over and self._process is not None:
            self._box.link.post(frames.encode(self._process.number, frames.CANCEL))

    def is_neglected(self) -> bool:
        """Is nobody there to end it?"""
        return not self.over and self.abandoned


def _shortened(result: Result, keep: int) -> Result:
    """With so many bytes of its output: its events have told all of it."""
    out, err = result.stdout_bytes, result.stderr_bytes
    if len(out) <= keep and len(err) <= keep:
        return result
    fields = {name: getattr(result, name) for name in result._fields}
    for name, data in (("stdout", out[:keep]), ("stderr", err[:keep])):
        fields[name], fields[f"{name}_bytes"] = data.decode(errors="replace"), data
    return type(result)(**{**fields, "truncated": True})
