"""One build of an environment: its sandbox, the packages and steps in there, and its log."""

from __future__ import annotations

import os
from posixpath import join, normpath
from shlex import quote
from typing import cast

from cloche.errors import InvalidRun
from cloche.model.installs import InstalledPackage
from cloche.packages import workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.model.environments import Environment, EnvironmentSpec, Step
    from cloche.model.network import Network
    from cloche.model.packages import Lock, Requirement
    from cloche.packages.broker import Broker, Provided
    from cloche.packages.policy import PackagePolicy

STEP_S, BUILD_S = 600.0, 3600.0
RESOURCES: Mapping[str, Any] = {"memory": "2G", "disk": "4G", "processes": 256}
MAX_LINES, MAX_LINE = 10_000, 2000  # of a build's log
_INSIDE = "/tmp/.cloche-environment"  # the build's own files, which are not packed
_HOME = "/sandbox"
_PYTHON = "/opt/env/bin/python3"


class StepFailed(InvalidRun):
    """A step of a build failed."""

    def __init__(self, number: int, problem: InvalidRun) -> None:
        super().__init__(problem.message, hint=problem.hint)
        self.number = number  # the step's place in the specification


class Build:
    """A build under way; its sandbox ends with the block."""

    def __init__(
        self,
        broker: Broker,
        spec: EnvironmentSpec,
        policy: PackagePolicy,
        network: Network | None,
        base: Environment | None,
        report: Callable[[str], None],
        resources: Mapping[str, Any],
        started: Callable[[Any], None],
    ) -> None:
        from cloche.blocking.sandbox.sandbox import Sandbox

        self._broker, self._spec, self._policy = broker, spec, policy
        self._log, self._started = BuildLog(report), started
        self.env = dict(base.env) if base is not None else {}
        self.folder = base.folder if base is not None else ""
        self._box = Sandbox(
            **{"timeout": STEP_S, "cpu": float(os.cpu_count() or 1), **RESOURCES, **resources},
            lifetime=BUILD_S,
            network=network,
            isolation="jail",
            environment=base,  # type: ignore[arg-type]  # found already, and perhaps of another owner than the host
            url="",
        )
        self._step_s = self._box.limits.timeout_s
        self._backend = cast("HostSandbox", self._box.backend)
        self._backend.begin_with((), policy)  # for `pip install` in a step

    def __enter__(self) -> Self:
        self._log.line("Starting a sandbox")
        self._box.open()
        self._started(self._backend)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.finish()
        self._box.close()

    def install(self, locks: Sequence[Lock]) -> None:
        """Install the packages of the specification, or exactly those of locks that were kept."""
        there = set(self.layers()[0])
        for lock in locks:
            if lock.digest not in there:
                self._attach(self._broker.provide_locked(lock, self._policy, self._log.line))
        for ecosystem, wanted in _by_ecosystem(self._spec.packages).items():
            have = {each.name: each.version for each in self.packages() if each.language == ecosystem}
            self._attach(self._broker.provide(wanted, self._policy, have, report=self._log.line))

    def carry_out(self) -> None:
        """Carry out the steps, and try the imports: a mistake is better found now than by each sandbox."""
        for number, step in enumerate(self._spec.steps):
            try:
                _STEPS[step.kind](self, step)
            except InvalidRun as problem:
                raise StepFailed(number, problem) from problem
        for name in self._spec.imports:
            self._log.line(f"Importing {name}")
            self._command(f"{_PYTHON} -c {quote(f'import {name}')}", f"import {name}")

    def packages(self) -> tuple[InstalledPackage, ...]:
        """The packages that the environment adds."""
        return tuple(each for each in self._box.packages.list() if each.source == "sandbox")

    def layers(self) -> tuple[Sequence[str], dict[str, Any]]:
        """The layers of packages, by slot, and their details by name."""
        return self._backend.packages.layers()

    def packed(self) -> Iterator[bytes]:
        """Have the sandbox pack its files; return the pieces of the archive."""
        self._log.line("Packing files")
        self._box.files.write(f"{_INSIDE}/pack.py", workshop.program("pack_files"))
        packing = f"{_PYTHON} -IS {_INSIDE}/pack.py {_INSIDE}/files.tar {_INSIDE}"
        self._command(packing, "packing the files", of_user=False)
        return self._box.files.read_stream(f"{_INSIDE}/files.tar")

    # --- steps

    def _attach(self, provided: Provided) -> None:
        for warning in provided.warnings:
            self._log.line(f"Warning: {warning}")
        self._backend.packages.attach(provided)
        if provided.packages:
            self._log.line("Installed " + ", ".join(f"{each.name} {each.version}" for each in provided.packages))

    def _set(self, step: Step) -> None:
        self.env.update(step.variables)

    def _enter(self, step: Step) -> None:
        self.folder = self._place(step.text)
        self._command(f"mkdir -p {quote(self.folder)}", f"making {self.folder}", of_user=False)

    def _write(self, step: Step) -> None:
        self._write_files(step)
        self._log.line(f"Copied {len(step.files)} file{'' if len(step.files) == 1 else 's'}")

    def _write_files(self, step: Step) -> None:
        programs = []
        for path, content, mode in step.files:
            self._box.files.write(self._place(path), content)
            if mode & 0o111:
                programs.append(quote(self._place(path)))
        if programs:
            self._command(f"chmod +x {' '.join(programs)}", "marking programs", of_user=False)

    def _run(self, step: Step) -> None:
        name = step.title or step.text
        self._log.line(f"$ {name}")
        self._write_files(step)
        self._command(step.text, name)

    def _run_script(self, step: Step) -> None:
        """Run a script with the program that its first line names, or else with a shell that stops at an error."""
        first = step.text.partition("\n")[0].strip()
        program = first.removeprefix("#!").strip() if first.startswith("#!") else "/bin/sh -e"
        self._log.line(f"Running the script ({program})")
        self._box.files.write(f"{_INSIDE}/setup", step.text)
        self._command(f"{program} {_INSIDE}/setup", "the setup script")

    def _place(self, path: str) -> str:
        return normpath(join(_HOME, self.folder, path))

    def _command(self, command: str, name: str, of_user: bool = True) -> None:
        process = self._box.commands.start(
            command, cwd=self.folder or None if of_user else None, env=self.env, stdin=False, timeout=self._step_s
        )
        while (event := process.next_event()) is not None:
            if of_user:
                self._log.output(getattr(event, "text", ""))
        self._log.finish()
        result = process.wait()
        if result.exit_code or result.error is not None:
            ended = result.stderr.strip()[-500:] or f"its exit code is {result.exit_code}"
            reason = result.error.message if result.error is not None and result.exit_code is None else ended
            raise InvalidRun(f"A step of the build failed: {name[:200]}: {reason}", hint="Correct it, and build again.")


_STEPS: Mapping[str, Callable[[Build, Step], None]] = {
    "env": Build._set,
    "folder": Build._enter,
    "write": Build._write,
    "run": Build._run,
    "script": Build._run_script,
}


class BuildLog:
    """The log of a build: output in whole lines, and both bounded, since programs write them."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report, self._rest, self._lines = report, "", 0

    def output(self, text: str) -> None:
        """Take some output."""
        *lines, rest = (self._rest + text).split("\n")
        self._rest = rest[-MAX_LINE:]
        for each in lines:
            self.line(each)

    def finish(self) -> None:
        """Report a last line without an end."""
        if self._rest:
            rest, self._rest = self._rest, ""
            self.line(rest)

    def line(self, text: str) -> None:
        """Report a line; of a progress bar, its last state."""
        self._lines += 1
        if self._lines == MAX_LINES:
            self._report("… the log is too long; the rest is left out")
        if self._lines < MAX_LINES:
            shown = text.rstrip("\r").rpartition("\r")[2]
            self._report(shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}…")


def _by_ecosystem(requirements: Sequence[Requirement]) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for each in requirements:
        found.setdefault(each.ecosystem, []).append(each)
    return found
