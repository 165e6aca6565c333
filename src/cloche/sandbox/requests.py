"""Requests that the front sends to a backend: each is checked once, when it is made."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping, Sequence

from cloche import languages
from cloche.errors import InvalidRun
from cloche.model.limits import Limits, within
from cloche.model.plain import Plain
from cloche.sandbox.checks import (
    checked_args,
    checked_check,
    checked_code,
    checked_command,
    checked_cwd,
    checked_env,
    checked_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.environments import Environment
    from cloche.model.files import Mount
    from cloche.model.network import Network
    from cloche.model.packages import Requirement
    from cloche.packages.policy import PackagePolicy
    from cloche.sandbox.facts import ContextFacts

_LONGEST_S = 366 * 86400


class Program(Plain):
    """A program to be run in a process of its own: code, a file of the sandbox, or code that belongs in that file."""

    code: str | None
    language: str | None = None  # None: chosen by the entry's name
    entry: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = {}  # noqa: RUF012  (nobody changes it)
    cwd: str | None = None
    timeout: float | None = None  # None: the sandbox's
    build_timeout: float | None = None  # None: the sandbox's
    check: str = "report"
    takes_input: bool = False  # whether the program gets any standard input
    files: Iterable[str] | None = None  # of its project; None: all files in the sandbox
    is_last: bool = False  # the sandbox ends with it
    terminal: tuple[int, int] | None = None  # columns and rows, if the program gets a terminal
    terminal_streams: Sequence[int] = (0, 1, 2)  # the streams that are the terminal; the others are pipes
    is_counted: bool = True  # whether the wall is asked for the resources used, even after a success


class Command(Plain):
    """A command to be run: any program that is in the sandbox."""

    argv: Sequence[str]
    line: str | None = None  # the shell line that `argv` was made of
    cwd: str | None = None
    env: Mapping[str, str] = {}  # noqa: RUF012
    timeout: float | None = None
    is_limited: bool = True  # whether a command without a timeout gets the sandbox's
    takes_input: bool = False
    terminal: tuple[int, int] | None = None  # columns and rows, if the command gets a terminal
    stop_at_output_limit: bool = True
    keep: int | None = None  # bytes of output in its result, if that is less than the output limit


class CellRequest(Plain):
    """A cell to be run in a context."""

    code: str
    language: str
    context: ContextFacts
    env: Mapping[str, str]
    timeout: float | None  # None: the sandbox's
    takes_input: str  # "", "whole": all input is sent at the start, or "interactive": input comes during the run
    keep: int  # bytes of output in its result
    shows: Mapping[str, Any] | None = None  # additional displays


class SandboxRequest(Plain):
    """A sandbox to be made, or found."""

    limits: Limits
    env: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    network: Network | None = None
    packages: tuple[Requirement, ...] = ()
    package_policy: PackagePolicy | None = None  # a server's; None: the operator's of this host
    environment: Environment | str | None = None  # by its name, or as a server has found it
    lifetime: float | None = None
    tools: Any = None  # the owner's functions (tools.py)
    undo: bool = False
    checkpoints: int = 16
    server_options: Mapping[str, Any] = {}  # noqa: RUF012  (arguments that only a server understands)


def checked_program(
    code: str | None,
    language: str | None = None,
    entry: str | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    timeout: float | None = None,
    build_timeout: float | None = None,
    check: str = "report",
    takes_input: bool = False,
) -> Program:
    """A program for a sandbox that exists already."""
    if code is None and entry is None:
        raise InvalidRun("There is nothing to run.", hint="Give code, or the entry among the sandbox's files.")
    return Program(
        code=None if code is None else checked_code(code),
        language=None if language is None else languages.find(language).name,
        entry=None if entry is None else checked_path(entry),
        args=checked_args(args),
        env=checked_env(env),
        cwd=checked_cwd(cwd),
        timeout=checked_timeout(timeout),
        build_timeout=None if build_timeout is None else Limits.of(build_timeout=build_timeout).build_timeout_s,
        check=checked_check(check),
        takes_input=takes_input,
    )


def checked_call(
    command: str | Sequence[str],
    cwd: str | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    **options: Any,
) -> Command:
    """A command with its arguments."""
    return Command(
        argv=checked_command(command),
        line=command if isinstance(command, str) else None,
        cwd=checked_cwd(cwd),
        env=checked_env(env),
        timeout=checked_timeout(timeout),
        **options,
    )


def checked_lifetime(lifetime: float | None) -> float | None:
    """The seconds after which a sandbox ends; None: when it is closed."""
    return None if lifetime is None else within("lifetime", lifetime, 0.001, _LONGEST_S, "seconds")


def checked_timeout(timeout: float | None) -> float | None:
    """A time limit in seconds; None: the sandbox's."""
    return None if timeout is None else Limits.of(timeout=timeout).timeout_s
