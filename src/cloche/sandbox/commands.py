"""`box.commands`, and the events of programs."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche.errors import ClocheError
from cloche.sandbox.checks import checked_data, checked_size
from cloche.sandbox.processes import AsyncProcess
from cloche.sandbox.requests import checked_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.events import Event
    from cloche.model.result import Result
    from cloche.sandbox.backend import AsyncProgramsBackend
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import Program


class AsyncCommands:
    """`box.commands`: runs any program that is installed in the sandbox."""

    def __init__(self, backend: AsyncProgramsBackend) -> None:
        self._backend = backend

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a command (a shell line, or a list of arguments) to its end."""
        data = None if stdin is None else checked_data("stdin", stdin)
        request = checked_call(command, cwd, env, timeout, takes_input=data is not None)
        return await self._backend.run_command(request, data)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        pty: bool = False,
        size: tuple[int, int] = (80, 24),
        stdin: bool = True,
        timeout: float | None = None,
        stop_at_output_limit: bool = False,
        keep: int | None = None,
    ) -> AsyncProcess:
        """Start a command and return at once.  Without `timeout` it may run until the sandbox ends.

        Its result contains the first `keep` bytes of the output, or as many as the output limit allows.  On a server,
        the server chooses `keep` and `stop_at_output_limit`.
        """
        request = checked_call(
            command,
            cwd,
            env,
            timeout,
            terminal=checked_size(size) if pty else None,
            is_limited=False,
            takes_input=bool(stdin),
            stop_at_output_limit=stop_at_output_limit,
            keep=keep,
        )
        process = AsyncProcess(await self._backend.start_command(request))
        try:
            await process.started()
        except ClocheError:
            raise
        except BaseException:  # cancelled: the command may run already, and its caller would never learn of it
            await process.give_up()
            raise
        return process


class AsyncProgramEvents:
    """The events of one program, in order.  It starts with the first request for an event; the last is `exit`."""

    def __init__(self, backend: AsyncProgramsBackend, program: Program, stdin: Data | None) -> None:
        self._backend, self._program, self._stdin = backend, program, stdin
        self._process: AsyncProcess | None = None

    def __aiter__(self) -> AsyncProgramEvents:
        return self

    async def __anext__(self) -> Event:
        if self._process is None:
            self._process = AsyncProcess(await self._backend.start_program(self._program, self._stdin))
        event = await self._process.next_event()
        if event is None:
            raise StopAsyncIteration
        return event
