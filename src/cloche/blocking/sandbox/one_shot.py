# Generated from src/cloche/sandbox/one_shot.py by scripts/blocking.py: edit that file instead.
"""Runs one program in a fresh sandbox that ends with it.

The library, the command line and the service all use this path: check → sandbox → files → start → input → events →
result.
"""

from __future__ import annotations

from _collections_abc import Callable, Iterable, Mapping, Sequence

from cloche import languages
from cloche.blocking.sandbox.places import place_for
from cloche.blocking.sandbox.processes import Process
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.plain import Plain
from cloche.model.result import Result
from cloche.sandbox.checks import (
    checked_args,
    checked_check,
    checked_code,
    checked_data,
    checked_env,
    checked_files,
    checked_mounts,
    checked_network,
    checked_packages,
    checked_path,
)
from cloche.sandbox.requests import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.sandbox.backend import Place
    from cloche.blocking.walls.wall import Wall
    from cloche.model.environments import Environment
    from cloche.model.network import Network
    from cloche.model.packages import Requirement
    from cloche.packages.policy import PackagePolicy
    from cloche.sandbox.checks import Data


class Job(Plain):
    """One program with the description of its sandbox; all arguments are checked."""

    program: Program
    limits: Limits
    env: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    network: Network | None = None
    packages: tuple[Requirement, ...] = ()
    package_policy: PackagePolicy | None = None  # a server's; None: the operator's of this host
    environment: Environment | str | None = None  # by its name, or as a server has found it
    files: Sequence[tuple[str, Data]] = ()
    stdin: Data | None = None
    is_interactive: bool = False  # more input may come while it runs


def run(
    code: str | None = None,
    *,
    language: str | None = "python",
    entry: str | None = None,
    stdin: str | bytes | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    timeout: float | None = 30,
    build_timeout: float | None = 60,
    check: str = "report",
    memory: int | str = "512M",
    cpu: float = 1.0,
    disk: int | str = "1G",
    processes: int = 64,
    output: int | str = "10M",
    mounts: Mapping[str, str] | Sequence[Mount] = (),
    network: str | Iterable[str] | Mapping[str, Any] | Network | None = None,
    packages: Iterable[str] | None = None,
    environment: str | None = None,
    isolation: str = "auto",
    wall: Wall | None = None,
    url: str | None = None,
    api_key: str | None = None,
) -> Result:
    """Run a program in a fresh sandbox and destroy the sandbox; on a server, if `url` or CLOCHE_URL names one.

    With `language=None`, the language is recognized from the code.  A project consists of `files`, one of which is the
    `entry`; leave it out where the choice is obvious.  `isolation` selects the kind of isolation: "auto", "jail", or
    "e2b" (docs/e2b.md); a `wall` of your own takes precedence.  `network` says what the program may reach: nothing by
    default (docs/network.md).  `packages` are installed before it starts: "polars", or for a JavaScript program
    "lodash@4"; `environment` names one that has packages and files already (docs/packages.md).
    """
    limits = Limits.of(timeout, memory, cpu, disk, processes, output, build_timeout)
    job = checked_job(
        code, limits, language=language, entry=entry, stdin=stdin, args=args, env=env, files=files, check=check,
        mounts=mounts, network=network, packages=packages, environment=environment,
    )  # fmt: skip
    return execute(place_for(url, api_key, isolation, wall), job)


def checked_job(
    code: str | None,
    limits: Limits,
    *,
    language: str | None = "python",
    entry: str | None = None,
    stdin: str | bytes | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    other_files: Mapping[str, bytes] | None = None,
    check: str = "report",
    mounts: Mapping[str, str] | Sequence[Mount] = (),
    network: str | Iterable[str] | Mapping[str, Any] | Network | None = None,
    packages: Iterable[str] | None = None,
    package_policy: PackagePolicy | None = None,
    environment: Environment | str | None = None,
    is_interactive: bool = False,
    is_counted: bool = True,
    is_last: bool = True,
    terminal: tuple[int, int] | None = None,
    terminal_streams: Sequence[int] = (0, 1, 2),
) -> Job:
    """Check a caller's arguments, choose the language and the entry, and make a job.

    `files` are the project; `other_files` are written beside it, and do not influence that choice.
    """
    written = checked_files(files)
    code, language, entry = _choose(code, language, entry, dict(written))
    data = None if stdin is None else checked_data("stdin", stdin)
    program = Program(
        code=code,
        language=languages.find(language).name,
        entry=None if entry is None else checked_path(entry),
        args=checked_args(args),
        check=checked_check(check),
        takes_input=data is not None or is_interactive,
        files=[path for path, _ in written] or None,
        is_last=is_last,
        terminal=terminal,
        terminal_streams=terminal_streams,
        is_counted=is_counted,
    )
    if other_files:
        written = checked_files(other_files) + written
    return Job(
        program,
        limits,
        checked_env(env),
        checked_mounts(mounts),
        checked_network(network),
        checked_packages(packages, program.language or "python"),
        package_policy,
        environment,
        written,
        data,
        is_interactive,
    )


def execute(
    place: Place,
    job: Job,
    started: Callable[[Process, Any], None] | None = None,
    on_event: Callable[..., Any] | None = None,
    *,
    waits: bool = False,
    before_end: Callable[..., Any] | None = None,
) -> Result:
    """Carry out a job.

    `started` is called with the process, so that the caller can kill it or write to it, and with its sandbox;
    `on_event` is awaited with each event, and `before_end` with the sandbox after the program, whose `is_last` is
    then false.  With `waits`, the sandbox is removed when this returns.
    """
    is_watched = started is not None or on_event is not None
    if place.takes_whole_jobs and not is_watched:
        return place.run(job)
    box = place.one_shot(job)
    try:
        if job.packages:
            box.open()  # the time that it takes to install them is not the program's
        for path, data in job.files:
            box.files.write(path, data, None, False)
        if not is_watched:
            return box.programs.run_program(job.program, job.stdin)
        whole = None if job.is_interactive else job.stdin
        process = Process(box.programs.start_program(job.program, whole))
        if started is not None:
            started(process, box)
        if job.is_interactive and job.stdin is not None:
            process.write(job.stdin)
        while (event := process.next_event()) is not None:
            if on_event is not None:
                on_event(event)
        assert process.result is not None
        if before_end is not None:
            before_end(box)
        return process.result
    finally:
        (box.close() if waits else box.let_go())


def _choose(
    code: str | None, language: str | None, entry: str | None, files: Mapping[str, Data]
) -> tuple[str, str, str | None]:
    """Choose the source, its language, and its path among the files (None: the usual place of programs)."""
    if code is not None:
        code = checked_code(code)
        if language is None:
            from cloche.languages.choice import detected
            from cloche.languages.markdown import strip_fence

            code, label = strip_fence(code)
            language = detected(code, entry, label)
        if files and entry is None:
            from cloche.languages.entry import place_among

            entry = place_among(languages.find(language), files)
        return code, language, entry
    from cloche.languages.entry import choose_entry

    if language == "python" and entry:  # probably the default and not the caller's choice: the entry's name decides
        language = languages.by_name(entry) or language
    elif language == "python" and not any(languages.by_name(name) == "python" for name in files):
        language = None
    language, entry = choose_entry(language, entry, list(files), files)
    return bytes(files[entry]).decode("utf-8", "surrogateescape"), language, entry
