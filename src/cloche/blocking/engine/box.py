# Generated from src/cloche/engine/box.py by scripts/blocking.py: edit that file instead.
"""A sandbox that runs programs: what a one-shot run needs, and what sessions build on."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping, Sequence
from _weakref import ref

from cloche import languages
from cloche.blocking.engine import default
from cloche.blocking.engine.commands import Commands, Process
from cloche.blocking.engine.files import Files
from cloche.blocking.engine.link import Link, Lost
from cloche.blocking.io.tasks import Lock
from cloche.errors import Gone, InvalidRun, SandboxFailed
from cloche.languages.language import HOME, Language, Plan, Project
from cloche.model.events import Event
from cloche.model.limits import Limits
from cloche.model.order import Ahead, Order, Spent
from cloche.model.result import Result, Usage
from cloche.sandbox.checks import Data, checked_args, checked_code, checked_cwd, checked_data, checked_env, checked_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.blocking.engine.ports import Ports
    from cloche.blocking.walls.wall import Hold, Wall
    from cloche.engine.building import Building

MAX_FIRST = 64 << 10  # bytes that can be sent to an agent before it is there to read them
MAX_INLINE_SOURCE = 32 << 10  # characters of a program that travel with the request; each takes up to 12 bytes


class Box:
    """A sandbox's life, its files and its programs."""

    def __init__(self, order: Order, env: dict[str, str], wall: Wall | None) -> None:
        self.limits = order.limits
        self._order, self.env, self._wall = order, env, wall or default.wall()
        self.wall = self._wall.name
        self.files = Files(self)
        self.commands = Commands(self)
        self._opening = Lock()
        self._hold: Hold | None = None
        self.link = Link()  # the conversation with the agent, once there is one
        self._ended = False
        self.closed = False  # by its owner
        self.paused = False
        self.sources: dict[str, object] = {}  # of the programs that run
        self.oom_kills_seen = self.refusals_seen = 0  # what is no later program's doing
        self._is_seen = True  # could nothing have happened since?
        self.is_watched = True  # does the wall count these at all?  Known when it was asked once

    @property
    def ports(self) -> Ports:
        """Servers inside, and connections to them."""
        from cloche.blocking.engine.ports import (
            Ports,  # most sandboxes have none, and a cold `cloche run` is in a hurry
        )

        return Ports(self)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Start it; done by `with`, and by the first use."""
        self._open_with(b"")

    def _open_with(self, first: bytes) -> bool:
        """Start it, unless it has been; was it this that did, and sent `first` to its agent?"""
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        started = False
        if self._hold is None:
            with self._opening:
                if self._hold is None:
                    hold = self._wall.hold(self._order, first)
                    self.link.connect(hold.stream)
                    self._hold, started = hold, True
                    _held[ref(self, _forgotten)] = hold
        return started

    def close(self) -> None:
        """End it, with all that is in it, and wait until nothing of it is left."""
        self._ended = self.closed = True
        if self._hold is not None:
            try:
                self._hold.end()
                self._hold.gone()
            except SandboxFailed:
                pass  # it never was
            self._hold.abandon()

    def kill(self) -> None:
        """The same as close."""
        self.close()

    def run_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        stdin: str | bytes | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
    ) -> Result:
        """Run a program to its end, in this sandbox, in a process of its own.

        It is `code`, or the file `entry` of a project that is in the sandbox.  `check` is for TypeScript: "report" what
        its compiler says of the types, "block" on errors, or "off".
        """
        data = None if stdin is None else checked_data("stdin", stdin)
        process = self.start_program(
            code,
            language=language,
            entry=entry,
            args=args,
            env=env,
            cwd=cwd,
            timeout=timeout,
            build_timeout=build_timeout,
            check=check,
            stdin=data is not None,
        )
        return process.finish(data)

    def start_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
        stdin: bool = True,
        ends_sandbox: bool = False,
        files: Iterable[str] | None = None,
    ) -> Process:
        """Start a program and return at once; it is built first, if its language is compiled.

        With `code` and `entry` the code is that file's; `files` are the project's, if the caller knows them.
        """
        text = None if code is None else checked_code(code)
        if text is None and entry is None:
            raise InvalidRun("There is nothing to run.", hint="Give code, or the entry among the sandbox's files.")
        place = None if entry is None else checked_path(entry)
        spoken = languages.find(languages.of(language, text, place))
        limits = self.limits_with(timeout)
        if build_timeout is not None:
            limits = limits.replace(build_timeout_s=Limits.of(build_timeout=build_timeout).build_timeout_s)
        request: dict[str, Any] = {"env": checked_env(env), "cwd": checked_cwd(cwd), "input": stdin}
        words = checked_args(args)
        if place is not None and not place.startswith("/"):
            place = f"{HOME}/{place}"
        source = place if place is not None else self._reserve(spoken.source)
        try:
            building = None
            if spoken.warm:
                request.update(python=source, args=words)
                written = [] if text is None else [(source, text)]
            else:
                from cloche.blocking.engine.planning import project_of
                from cloche.sandbox.checks import checked_check

                project = project_of(self, spoken, source, text, files, place is None, checked_check(check))
                building, written = self._plan(spoken, project, request, words)
                if text is not None and source not in (path for path, _ in written):
                    written.append((project.entry, text))
                if not (words or env or self.env or cwd):
                    self._foresee(spoken, building.plan)
            request["sources"] = self._carry(written)
            ours = source if place is None else None
            return self.launch(
                request,
                limits,
                stop_at_output_limit=True,
                ends_sandbox=ends_sandbox,
                source=ours,
                building=building,
            )
        except BaseException:
            self.sources.pop(source, None)
            raise

    def _plan(
        self, spoken: Language, project: Project, request: dict[str, Any], words: list[str]
    ) -> tuple[Building, list[tuple[str, str]]]:
        """How to run it goes into the request; what to write first is returned."""
        from cloche.engine.building import Building

        found = languages.tools(spoken)
        plan = spoken.plan_for(project, found) if found is not None else Plan(run=())
        building = Building(spoken, project, plan)
        argv = [*plan.run, *words]
        if not plan.run:  # what is not there cannot be started, and the agent says so
            argv = [f"{spoken.name} (not installed)"]
        request.update(argv=argv, language=spoken.name, **building.request())
        request["env"] = {**plan.env, **request["env"]}
        return building, list(plan.files)

    def _foresee(self, spoken: Language, plan: Plan) -> None:
        """Ask for a sandbox in which the command has been started already, if it will be the same the next time."""
        if spoken.ahead and plan.run and not plan.shown and self._hold is None:
            self._order = self._order.replace(ahead=Ahead(plan.run, plan.env, spoken.ahead))

    def _carry(self, written: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Bring files into the sandbox; those that are small enough travel with the request, and are returned."""
        inline, room = [], MAX_INLINE_SOURCE
        for path, text in written:
            if len(text) <= room:
                inline.append((path, text))
                room -= len(text)
            else:
                self.files.write(path, text)
        return inline

    def _reserve(self, source: str) -> str:
        """`main.py`, or another name while a program of that name runs: two at once do not overwrite each other."""
        stem, dot, suffix = source.rpartition(".")
        number, ours = 1, object()
        while self.sources.setdefault(source, ours) is not ours:
            number += 1
            source = f"{stem}_{number}{dot}{suffix}"
        return source

    def stream_program(
        self,
        code: str | None = None,
        *,
        language: str | None = None,
        entry: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        build_timeout: float | None = None,
        check: str = "report",
    ) -> Events:
        """Run a program; iterate over its events as they happen: building, started, stdout, stderr, exit."""
        options = {
            "language": language,
            "entry": entry,
            "args": args,
            "env": env,
            "cwd": cwd,
            "timeout": timeout,
            "build_timeout": build_timeout,
            "check": check,
        }
        return Events(self, code, None if stdin is None else checked_data("stdin", stdin), options)

    def usage(self) -> Usage:
        """What the sandbox uses now."""
        disk = self.files.disk()
        spent = self.spent(final=False)
        return Usage(
            memory=spent.memory or 0,
            memory_peak=spent.memory_peak or 0,
            cpu_time=spent.cpu_time or 0.0,
            disk=disk["total"] - disk["free"],
            processes=max((spent.processes or 1) - 1, 0),
        )

    def pause(self) -> None:
        """Have nothing in it run until `resume`: variables, programs and files stay as they are, and so does memory."""
        self.open()
        assert self._hold is not None
        self._hold.pause()
        self.paused = True

    def resume(self) -> None:
        """Have it go on where it was."""
        if self._hold is not None and self.paused:
            self._hold.resume()
            self.paused = False

    def set_lifetime(self, seconds: float | None) -> None:
        """Have the sandbox end by itself so long from now; None: not before it is closed."""
        self.open()
        assert self._hold is not None
        self._hold.set_lifetime(seconds)

    def ended(self) -> str:
        """Wait until it has ended, for whatever reason, and tell it.

        "closed" by its owner, "timeout" when its lifetime was over, "memory" when it needed too much, "failed" when it
        could not be built, "lost" when it was killed otherwise.  Others may use the sandbox meanwhile.
        """
        if self._hold is None:
            if self.closed:
                return "closed"
            self.open()
        assert self._hold is not None
        reason = self._hold.ended()
        return "closed" if self.closed and reason in ("lost", "failed") else reason

    # What commands and files build on

    def launch(
        self,
        request: dict[str, Any],
        limits: Limits,
        *,
        stop_at_output_limit: bool = False,
        ends_sandbox: bool = False,
        source: str | None = None,
        building: Building | None = None,
    ) -> Process:
        """Ask the agent for a process."""
        request["env"] = {**self.env, **request["env"]}
        process = Process(
            self,
            request,
            limits,
            stop_at_output_limit=stop_at_output_limit,
            ends_sandbox=ends_sandbox,
            source=source,
            building=building,
        )
        process.begin()
        return process

    def tell(self, data: bytes) -> None:
        """Send frames to the agent; raises what became of the sandbox when it is gone."""
        first = data if len(data) <= MAX_FIRST else b""
        if self._open_with(first) and first:
            return
        try:
            self.link.send(data)
        except Lost as problem:
            self.explain_loss(problem)

    def explain_loss(self, problem: Exception) -> None:
        """Raise why the agent does not answer."""
        spent = self.spent(final=True)
        reasons = {"memory": "it needed too much memory", "timeout": "its time was up", "closed": "it was closed"}
        raise Gone(
            f"The sandbox has ended: {reasons.get(spent.reason, str(problem))}.", hint="Make a new one."
        ) from problem

    def spent(self, final: bool) -> Spent:
        """What it has used; `final` ends it."""
        assert self._hold is not None
        if final:
            self._ended = True
            return self._hold.end()
        return self._hold.usage()

    def see(self, spent: Spent) -> None:
        """Hold what has happened so far against no later program."""
        self.oom_kills_seen, self.refusals_seen = spent.oom_kills, spent.processes_refused
        self._is_seen, self.is_watched = True, spent.processes is not None

    def see_later(self) -> None:
        """Something has run, and nobody has asked the wall what it saw."""
        self._is_seen = False

    def catch_up(self) -> None:
        """A program is about to begin: ask now if nobody has."""
        if not self._is_seen and self.is_watched and not self._ended:
            self.see(self.spent(final=False))

    def end(self) -> None:
        """Have the wall kill it; what it used can still be asked for."""
        self.spent(final=True)

    def limits_with(self, timeout: float | None, unlimited: bool = False) -> Limits:
        """The sandbox's limits, with another time limit when one is given."""
        if timeout is None:
            return self.limits.replace(timeout_s=None) if unlimited else self.limits
        return self.limits.replace(timeout_s=Limits.of(timeout=timeout).timeout_s)


# An owner who forgets a sandbox lets go of its leash, and that ends it.  Done here and not by a `__del__`: a sandbox is
# part of a cycle, and the collector may close its sockets before it comes to the sandbox.
_held: dict[ref[Box], Hold] = {}


def _forgotten(box: ref[Box]) -> None:
    _held.pop(box).abandon()


class Events:
    """The events of one run, in order; it starts with the first and ends with its exit."""

    def __init__(self, box: Box, code: str | None, stdin: Data | None, options: dict[str, Any]) -> None:
        self._box, self._code, self._stdin, self._options = box, code, stdin, options
        self._process: Process | None = None

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        if self._process is None:
            has_input = self._stdin is not None
            self._process = self._box.start_program(self._code, stdin=has_input, **self._options)
            if self._stdin is not None:
                self._process.feed(self._stdin)
        event = self._process.next_event()
        if event is None:
            raise StopIteration
        return event
