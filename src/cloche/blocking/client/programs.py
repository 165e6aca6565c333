# Generated from src/cloche/client/programs.py by scripts/blocking.py: edit that file instead.
"""Programs and commands of a sandbox on a server."""

from __future__ import annotations

from cloche.blocking.client.processes import ServerProcess
from cloche.client import shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import Command, Program


class ServerPrograms:
    """The programs of one sandbox."""

    def __init__(self, box: ServerSandbox) -> None:
        self._box = box

    def run_program(self, program: Program, stdin: Data | None) -> Result:
        """Run a program to its end, in one request."""
        return self._run(_program(program), stdin)

    def start_program(self, program: Program, stdin: Data | None = None) -> ServerProcess:
        """Start a program; `stdin` is its whole input, if that is known already."""
        given = {"stdin": program.takes_input} if stdin is None else shapes.given("stdin", stdin)
        terminal = {} if program.terminal is None else {"pty": True, "size": list(program.terminal)}
        return self._start({**_program(program), **given, **terminal})

    def run_command(self, command: Command, stdin: Data | None) -> Result:
        """Run a command to its end, in one request."""
        return self._run(_command(command), stdin)

    def start_command(self, command: Command) -> ServerProcess:
        """Start a command."""
        request = {**_command(command), "stdin": command.takes_input}
        if command.terminal is not None:
            request.update(pty=True, size=list(command.terminal))
        return self._start(request)

    def _run(self, request: dict[str, Any], stdin: Data | None) -> Result:
        given = {"stdin": False} if stdin is None else shapes.given("stdin", stdin)
        body = {**request, **given, "wait": True}
        return shapes.result(self._box.call("POST", "/commands", body, timeout=None))

    def _start(self, request: dict[str, Any]) -> ServerProcess:
        return ServerProcess(self._box, self._box.call("POST", "/commands", request))


def _program(program: Program) -> dict[str, Any]:
    return {
        "code": program.code,
        "language": program.language,
        "entry": program.entry,
        "args": program.args,
        "env": program.env,
        "cwd": program.cwd,
        "timeout": program.timeout,
        "build_timeout": program.build_timeout,
        "check": program.check,
    }


def _command(command: Command) -> dict[str, Any]:
    return {
        "command": command.argv if command.line is None else command.line,
        "cwd": command.cwd,
        "env": command.env,
        "timeout": command.timeout,
    }
