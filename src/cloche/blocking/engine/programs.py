# Generated from src/cloche/engine/programs.py by scripts/blocking.py: edit that file instead.
"""Programs and commands of a sandbox of this host: their language plans them, and the agent starts them."""

from __future__ import annotations

from cloche import languages
from cloche.blocking.engine.processes import HostProcess
from cloche.blocking.io.tasks import off_loop
from cloche.languages.language import HOME, Language, Plan, Project
from cloche.model.order import FirstCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.engine.building import ProgramBuild
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import Command, Program

PLANNED_AT_ONCE = 16 << 10  # characters of source that a language looks at without a thread
MAX_INLINE_SOURCE = 32 << 10  # characters of a program that are sent with the request; each takes up to 12 bytes


class HostPrograms:
    """The programs of one sandbox."""

    def __init__(self, box: HostSandbox) -> None:
        self._box = box
        self.sources: dict[str, object] = {}  # file names of the running programs

    def run_program(self, program: Program, stdin: Data | None) -> Result:
        """Run a program to its end."""
        return (self._launch_program(program)).finish(stdin)

    def start_program(self, program: Program, stdin: Data | None = None) -> HostProcess:
        """Start a program; it is built first, if its language is compiled."""
        process = self._launch_program(program)
        if stdin is not None:
            process.feed(stdin)
        return process

    def run_command(self, command: Command, stdin: Data | None) -> Result:
        """Run a command to its end."""
        return (self._launch_command(command)).finish(stdin)

    def start_command(self, command: Command) -> HostProcess:
        """Start a command."""
        return self._launch_command(command, awaited=True)

    def _launch_command(self, command: Command, **more: Any) -> HostProcess:
        request = {"argv": command.argv, "cwd": command.cwd, "env": command.env, "input": command.takes_input, **more}
        if command.terminal is not None:
            columns, rows = command.terminal
            request["terminal"] = {"columns": columns, "rows": rows}
        limits = self._box.limits_with(command.timeout)
        if command.timeout is None and not command.is_limited:
            limits = limits.replace(timeout_s=None)
        if command.keep is not None:
            limits = limits.replace(output_bytes=min(limits.output_bytes, command.keep))
        process = HostProcess(
            self._box, self._with_env(request), limits, stop_at_output_limit=command.stop_at_output_limit
        )
        process.begin()
        return process

    def _launch_program(self, program: Program) -> HostProcess:
        language = program.language
        if language is None:
            from cloche.languages.choice import language_of

            code = program.code or ""
            language = off_loop(len(code), lambda: language_of(code, program.entry))
        chosen = languages.find(language)
        request: dict[str, Any] = {"env": program.env, "cwd": program.cwd, "input": program.takes_input}
        request["artifacts"] = True
        if program.terminal is not None:
            columns, rows = program.terminal
            request["terminal"] = {"columns": columns, "rows": rows, "streams": list(program.terminal_streams)}
        place = program.entry
        if place is not None and not place.startswith("/"):
            place = f"{HOME}/{place}"
        source = place if place is not None else self._reserve(chosen.source)
        try:
            building = None
            if chosen.warm:
                request.update(python=source, args=program.args)
                written = [] if program.code is None else [(source, program.code)]
            else:
                building, written = self._plan(program, chosen, source, request)
            request["sources"] = self._carry(written)
            process = HostProcess(
                self._box,
                self._with_env(request),
                self._box.limits_with(program.timeout, program.build_timeout),
                stop_at_output_limit=True,
                ends_sandbox=program.is_last,
                source=source if place is None else None,
                building=building,
            )
            process.is_counted = program.is_counted
            process.begin()
            return process
        except BaseException:
            self.sources.pop(source, None)
            raise

    def _plan(
        self, program: Program, chosen: Language, source: str, request: dict[str, Any]
    ) -> tuple[ProgramBuild, list[tuple[str, str]]]:
        """Put the command into the request; return the build steps, and the files to write first."""
        from cloche.blocking.engine.planning import project_of
        from cloche.engine.building import ProgramBuild

        is_snippet = program.entry is None
        project: Project = project_of(self._box, chosen, source, program.code, program.files, is_snippet, program.check)
        found = languages.tools(chosen)
        plan = Plan(run=())
        if found is not None:
            tools, size = found, sum(map(len, (project.text or "", *project.texts.values())))
            plan = off_loop(size, lambda: chosen.plan_for(project, tools), PLANNED_AT_ONCE)
        building = ProgramBuild(chosen, project, plan)
        argv = [*plan.run, *program.args]
        if not plan.run:  # the language is not installed: the agent will report that this program cannot be started
            argv = [f"{chosen.name} (not installed)"]
        request.update(argv=argv, language=chosen.name, **building.request())
        request["env"] = {**plan.env, **self._box.whole_env, **program.env}
        written = list(plan.files)
        if program.code is not None and source not in (path for path, _ in written):
            written.append((project.entry, program.code))
        is_usual = not (program.args or program.env or self._box.env or program.cwd or program.terminal)
        # The next program will probably begin with the same command.  The nursery keeps the command, and every sandbox
        # is a fork of the nursery, so it must not contain a name that this caller has chosen.
        is_usual = is_usual and project.snippet and project.entry == chosen.source
        if is_usual and chosen.ahead and plan.run and not plan.display_folder:
            self._box.expect(FirstCommand(plan.run, plan.env, chosen.ahead))
        return building, written

    def _carry(self, written: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Write files into the sandbox, except for small ones, which are returned and sent with the request."""
        inline, room = [], MAX_INLINE_SOURCE
        for path, text in written:
            if len(text) <= room:
                inline.append((path, text))
                room -= len(text)
            else:
                self._box.files.write(path, _encoded(text), None, False)
        return inline

    def _reserve(self, source: str) -> str:
        """Return `main.py`, or another name while a program of that name runs: two must not overwrite each other."""
        stem, dot, suffix = source.rpartition(".")
        number, ours = 1, object()
        while self.sources.setdefault(source, ours) is not ours:
            number += 1
            source = f"{stem}_{number}{dot}{suffix}"
        return source

    def _with_env(self, request: dict[str, Any]) -> dict[str, Any]:
        request["env"] = {**self._box.whole_env, **request["env"]}
        return request


def _encoded(text: str) -> bytes:
    return off_loop(len(text), lambda: text.encode("utf-8", "surrogateescape"))
