# Generated from src/cloche/sandbox/commands.py by scripts/blocking.py: edit that file instead.
"""`box.commands`, and the events of programs."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche.blocking.sandbox.processes import Process
from cloche.errors import ClocheError
from cloche.sandbox.checks import checked_data, checked_size
from cloche.sandbox.requests import checked_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import ProgramsBackend
    from cloche.model.events import Event
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import Program


class Commands:
    """`box.commands`: runs any program that is installed in the sandbox."""

    def __init__(self, backend: ProgramsBackend) -> None:
        self._backend = backend

    def run(
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
        return self._backend.run_command(request, data)

    def start(
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
    ) -> Process:
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
        process = Process(self._backend.start_command(request))
        try:
            process.started()
        except ClocheError:
            raise
        except BaseException:  # cancelled: the command may run already, and its caller would never learn of it
            process.give_up()
            raise
        return process


class ProgramEvents:
    """The events of one program, in order.  It starts with the first request for an event; the last is `exit`."""

    def __init__(self, backend: ProgramsBackend, program: Program, stdin: Data | None) -> None:
        self._backend, self._program, self._stdin = backend, program, stdin
        self._process: Process | None = None

    def __iter__(self) -> ProgramEvents:
        return self

    def __next__(self) -> Event:
        if self._process is None:
            self._process = Process(self._backend.start_program(self._program, self._stdin))
        event = self._process.next_event()
        if event is None:
            raise StopIteration
        return event
