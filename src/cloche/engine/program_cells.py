"""Runs a program like a cell, for `box.run` with languages that have no sessions."""

from __future__ import annotations

from cloche.errors import ClocheError
from cloche.model.events import CellEvent, End, Exit, Failed, Output, Shown, Started
from cloche.sandbox.requests import Program
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.engine.processes import AsyncHostProcess
    from cloche.engine.sandbox import AsyncHostSandbox
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import CellRequest


class AsyncProgramCell:
    """One program: it sees the files of earlier programs, but none of their variables."""

    def __init__(self, box: AsyncHostSandbox, request: CellRequest) -> None:
        self._box, self._keep = box, request.keep
        self._program = Program(
            code=request.code,
            language=request.context.language,
            env=request.env,
            timeout=request.timeout,
            takes_input=bool(request.takes_input),
        )
        self._process: AsyncHostProcess | None = None
        self._ahead: list[CellEvent] = []
        self._stopped = False
        self.lost_before = self.abandoned = self.over = False
        self.result: Result | None = None

    async def begin(self) -> None:
        """Start the program."""
        try:
            self._process = await self._box.programs.start_program(self._program)
        except BaseException:
            self.over = True
            raise
        if self._stopped:  # `interrupt` was called while the program was being started
            await self._process.kill()

    async def finish(self, stdin: Data | None) -> Result:
        """Send the input and wait for the end."""
        assert self._process is not None
        try:
            self.result = await self._process.finish(stdin)
        finally:
            self.over = True
        return self.result

    async def feed(self, data: Data) -> None:
        """Send the whole standard input."""
        assert self._process is not None
        await self._process.feed(data)

    async def write(self, data: Data) -> None:
        """Write to the standard input; drop input that can never be read."""
        assert self._process is not None
        rest = memoryview(data)
        while rest and self._process.result is None and await self._process.await_room():
            rest = await self._process.send_input(rest)

    async def close_stdin(self) -> None:
        """Close the standard input."""
        assert self._process is not None
        await self._process.close_stdin()

    async def next_event(self) -> CellEvent | None:
        """Wait for the next event; None after the end."""
        assert self._process is not None
        while not self._ahead and self.result is None:
            try:
                happened = await self._process.advance()
            except ClocheError:
                self.over = True
                raise
            for event in happened:
                if isinstance(event, Started | Output):
                    self._ahead.append(event)
                elif isinstance(event, Exit):
                    self._take_result(event.result)
        return self._ahead.pop(0) if self._ahead else None

    def _take_result(self, result: Result) -> None:
        self.over = True
        self.result = _shortened(result, self._keep)
        self._ahead += [Shown(display) for display in result.results]
        if result.error is not None:
            self._ahead.append(Failed(result.error))
        self._ahead.append(End(self.result))

    async def interrupt(self) -> None:
        """Stop the program by killing it: it keeps no variables."""
        self._stopped = True
        if self._process is not None:
            await self._process.kill()

    def abandon(self) -> None:
        """Stop the program from code that cannot await."""
        self.abandoned = True
        if not self.over and self._process is not None:
            self._box.link.post(frames.encode(self._process.number, frames.CANCEL))

    def is_neglected(self) -> bool:
        """Return whether no task is there to end the program."""
        return not self.over and self.abandoned


def _shortened(result: Result, keep: int) -> Result:
    """Cut the output of a result to its first bytes, because the events already carry all of it."""
    out, err = result.stdout_bytes, result.stderr_bytes
    if len(out) <= keep and len(err) <= keep:
        return result
    fields = {name: getattr(result, name) for name in result._fields}
    for name, data in (("stdout", out[:keep]), ("stderr", err[:keep])):
        fields[name], fields[f"{name}_bytes"] = data.decode(errors="replace"), data
    return type(result)(**{**fields, "truncated": True})
